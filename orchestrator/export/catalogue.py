"""The catalogue of ads to export: a table with an id and a column for each ad feature.

A model holds vectors of feature values. The catalogue says which values each ad has.
"""

from collections import Counter
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from divergence.errors import InputError
from orchestrator.export.model_table import vector_array
from orchestrator.sources.files.mapping.raw import RawFeature, RawMapping, raw_features
from trainer.events import check_side, weight_faults
from trainer.model import Model
from trainer.vectors import side_vectors

READERS = {
    ".parquet": pa.parquet.read_table,
    ".csv": pa.csv.read_csv,
    ".jsonl": pa.json.read_json,
}


def catalogue_vectors(
    model: Model, path: str, key: str, mapping: RawMapping | None = None
) -> pa.Table:
    """A table with the columns id and vector: one row for each ad of the file, in its order.

    Values are raw where there is a mapping.
    """
    table = _read(path)
    if mapping is not None:
        for raw in raw_features(mapping, model.config.spec.ad).values():
            try:
                table = _mapped(table, raw)
            except InputError as error:
                raise InputError(f"{path}: {raw.name}: {error}") from None
    if key not in table.column_names:
        raise InputError(f"{path}: has no column {key!r} (--id); it has {_column_names(table)}")
    try:
        check_side(table, model.config.spec.ad)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    for feature in model.config.spec.ad:
        for bad, reason in weight_faults(table, feature):
            if bad.any():
                raise InputError(f"{path}: row {int(bad.argmax()) + 1}: {reason}")
    ids = table.column(key).cast(pa.string()).to_pylist()
    invalid = [name for name, count in Counter(ids).items() if count > 1 or not name]
    if invalid:
        raise InputError(f"{path}: {key} must be unique and not empty, but see {invalid[0]!r}")
    if not ids:
        raise InputError(f"{path}: has no ads")
    return pa.table({"id": pa.array(ids), "vector": vector_array(side_vectors(model, table, "ad"))})


def _mapped(table: pa.Table, raw: RawFeature) -> pa.Table:
    """The table with the model's values of a feature, under its own name."""
    name = raw.name if raw.name in table.column_names else raw.column
    if name not in table.column_names:
        return table
    column = table.column(name)
    if not pa.types.is_nested(column.type):
        texts = [text or "" for text in column.cast(pa.string()).to_pylist()]
        split = [raw.values(text) for text in texts] if raw.multi else []
        found = split if split and split[0] is not None else [raw.value(text) for text in texts]
        column = pa.array(found)
    return table.drop_columns([name]).append_column(raw.name, column)


def _read(path: str) -> pa.Table:
    reader = READERS.get(PurePosixPath(path).suffix.lower())
    if reader is None:
        raise InputError(f"--ads {path}: must end in {', '.join(READERS)}")
    try:
        return reader(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"--ads {path}: cannot be read: {' '.join(str(error).split())}") from None


def _column_names(table: pa.Table) -> str:
    return ", ".join(table.column_names)
