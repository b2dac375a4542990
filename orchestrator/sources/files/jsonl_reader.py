"""JSON lines: one object per line. A key that a line lacks is a missing value."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from orchestrator.sources.files.files import File
from orchestrator.sources.files.lines import BOM, Lines, row_lines
from orchestrator.sources.files.rows import Block, Rows, aligned

BROKEN = "not a JSON object"
SAMPLE = 100


class JsonlReader:
    """One open JSON-lines file."""

    def __init__(self, file: File) -> None:
        self._lines = Lines(file)

    def blocks(self) -> Iterator[Block]:
        """Blocks of lines."""
        return self._lines.blocks(0, 1)

    def columns(self) -> Sequence[str]:
        """All keys of the first block's objects."""
        first = next(self.blocks(), None)
        if first is None:
            return ()
        try:
            data = self._lines.read(first).removeprefix(BOM)
            return tuple(pa.json.read_json(pa.BufferReader(data)).column_names)
        except pa.ArrowInvalid:
            objects = filter(None, map(_object, self._row_lines(first)))
        return tuple(dict.fromkeys(key for found in objects for key in found))

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns; an absent one is null."""
        data = self._lines.read(block).removeprefix(BOM)
        sample = map(_object, data.split(b"\n", SAMPLE)[:SAMPLE])
        options = pa.json.ParseOptions(
            explicit_schema=_schema(sample, columns),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        )
        try:
            table = pa.json.read_json(pa.BufferReader(data), parse_options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _read_line_by_line(self._row_lines(block), columns)
        if len(table) != block.rows:  # two objects on a line, or one on two
            return _read_line_by_line(self._row_lines(block), columns)
        return Rows(table.select(columns))

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """None: a JSON-lines file has no statistics."""
        return None

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Line numbers and lines."""
        return self._lines.raw(block, positions)

    def _row_lines(self, block: Block) -> list[bytes]:
        data = self._lines.read(block).removeprefix(BOM)
        lines = data.split(b"\n")
        return [lines[n] for n in row_lines(data)]


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _schema(sample: Iterable[dict[str, Any] | None], columns: Sequence[str]) -> pa.Schema:
    """The columns' types, inferred from a few lines. Other blocks are read line by line.

    Arrow's own inference would turn some texts into times and lose digits of long integers.
    """
    objects = [found for found in sample if found is not None]
    return pa.schema([(c, _type([o.get(c) for o in objects])) for c in columns])


def _type(values: Iterable[Any]) -> pa.DataType:
    """The type that fits all of these values; text if no other does."""
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, list) for value in given):
        inner = [item for value in given for item in value]
        if inner and all(isinstance(item, dict) for item in inner):
            keys = dict.fromkeys(key for item in inner for key in item)
            return pa.list_(pa.struct([(k, _type([i.get(k) for i in inner])) for k in keys]))
        return pa.list_(_type(inner))
    if given and all(isinstance(value, dict) for value in given):
        return pa.map_(pa.string(), _type([item for value in given for item in value.values()]))
    kinds = {_scalar_type(value) for value in given}
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    return kinds.pop() if len(kinds) == 1 else pa.string()


def _scalar_type(value: Any) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return pa.int64()
    return pa.float64() if isinstance(value, float) else pa.string()


def _read_line_by_line(lines: Sequence[bytes], columns: Sequence[str]) -> Rows:
    """Find the broken lines; infer the types from all the others."""
    objects = [_object(line) for line in lines]
    broken = {n: BROKEN for n, found in enumerate(objects) if found is None}
    for column in columns:
        _set_rarer_kind_aside(objects, column, broken)
    good = [n for n in range(len(lines)) if n not in broken]
    values = {c: [(objects[n] or {}).get(c) for n in good] for c in columns}
    table = pa.table({c: _array(found) for c, found in values.items()})
    return Rows(aligned(table, np.asarray(good, dtype=np.int64), len(lines)), broken)


def _set_rarer_kind_aside(
    objects: Sequence[dict[str, Any] | None], column: str, broken: dict[int, str]
) -> None:
    """If a column has both lists and single values, rows of the rarer kind are broken."""
    values = {n: found.get(column) for n, found in enumerate(objects) if found is not None}
    lists = [n for n, value in values.items() if isinstance(value, list)]
    others = [n for n, v in values.items() if v is not None and not isinstance(v, list)]
    if len(others) <= len(lists):
        broken.update({n: broken.get(n, f"{column} is not a list") for n in others})
    else:
        broken.update({n: broken.get(n, f"{column} is a list") for n in lists})


def _array(values: list[Any]) -> pa.Array:
    kind = _type(values)
    return pa.array([_fit(value, kind) for value in values], kind)


def _fit(value: Any, kind: pa.DataType) -> Any:
    """The value in a form that this type accepts; anything can be text."""
    if isinstance(value, dict):
        if pa.types.is_map(kind):
            return [(key, _fit(item, kind.item_type)) for key, item in value.items()]
        if pa.types.is_struct(kind):
            return {key: _fit(item, kind.field(key).type) for key, item in value.items()}
    if isinstance(value, list) and pa.types.is_list(kind):
        return [_fit(item, kind.value_type) for item in value]
    if value is None or kind != pa.string() or isinstance(value, str):
        return value
    if isinstance(value, float):
        return pa.scalar(value).cast(pa.string()).as_py()  # as Arrow writes it in other blocks
    return json.dumps(value, ensure_ascii=False)
