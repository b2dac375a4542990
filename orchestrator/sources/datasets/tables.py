"""What the converters share: reading small delimited files, joining, sorting."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from divergence.errors import InputError


def read_table(
    path: Path, names: Sequence[str] | None, delimiter: str, encoding: str = "utf-8"
) -> pa.Table:
    """All columns as texts. A delimiter of several characters must not occur in the data."""
    data = path.read_bytes().decode(encoding)
    if len(delimiter) > 1:
        data, delimiter = data.replace(delimiter, "\t"), "\t"
    columns = list(names) if names else data.split("\n", 1)[0].strip("\r").split(delimiter)
    try:
        return pa.csv.read_csv(
            pa.BufferReader(data.encode()),
            pa.csv.ReadOptions(column_names=columns, skip_rows=0 if names else 1),
            pa.csv.ParseOptions(delimiter=delimiter, quote_char=False),
            pa.csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error


def matching(left: pa.Table, right: pa.Table, key: str, path: Path) -> pa.Table:
    """For each row of `left`, the row of `right` that has the same key."""
    where = pc.index_in(left.column(key), right.column(key).combine_chunks())
    if where.null_count:
        lost = left.column(key).filter(pc.is_null(where))[0]
        raise InputError(f"{path} has no {key} {lost}, but the events do")
    return right.take(where)


def years(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts of four digits as numbers, anything else as null."""
    four = pc.match_substring_regex(column, r"^\d{4}$")
    return pc.if_else(four, column, pa.scalar(None, pa.string())).cast(pa.int16())


def in_time_order(table: pa.Table) -> pa.Table:
    """Sorted by timestamp; events of one instant keep their order."""
    ticks = table.column("timestamp").to_numpy()
    return table.take(pa.array(np.argsort(ticks, kind="stable")))
