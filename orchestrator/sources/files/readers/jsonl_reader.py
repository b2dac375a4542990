"""JSON lines: one object per line. A key that a line lacks is a missing value.

Arrow's parser neither checks the encoding nor bounds the nesting, and a line of many brackets
overflows its stack. So blocks with such lines are found first, and read line by line.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from orchestrator.sources.files.files import File
from orchestrator.sources.files.readers.lines import BOM, ENCODING, TextFile, arrow_stream
from orchestrator.sources.files.readers.records import TextRows, line_records
from orchestrator.sources.files.rows import Block, Rows, aligned

BROKEN, DEEP = "not a JSON object", "nested too deeply"
MAX_DEPTH = 100
SAMPLE = 100
NOT_OPENING = bytes(set(range(256)) - set(b"[{\n"))
NULL = re.compile(rb"\n[ \t\r]*+n")
MANY_OPENING = re.compile(rb"[^\n]{%d}" % (MAX_DEPTH + 1))
TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"')
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonlReader:
    """One open JSON-lines file."""

    def __init__(self, file: File) -> None:
        self._lines = TextFile(file)

    def blocks(self) -> Iterator[Block]:
        """Blocks of lines."""
        return self._lines.blocks(0, 1)

    def columns(self) -> Sequence[str]:
        """All keys of the first block's objects."""
        first = next(self.blocks(), None)
        if first is None:
            return ()
        data = self._lines.read(first).removeprefix(BOM)
        if _is_safe(data, line_records(data)):
            try:
                return tuple(pa.json.read_json(arrow_stream(data)).column_names)
            except pa.ArrowInvalid:
                pass
        found = map(_parsed, _row_lines(data))
        return tuple(dict.fromkeys(key for line in found if isinstance(line, dict) for key in line))

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns; an absent one is null."""
        data, rows = self._lines.read(block), self._lines.records(block)
        if data.startswith(BOM):
            data = data.removeprefix(BOM)
            rows = line_records(data)
        if not _is_safe(data, rows):
            return _read_line_by_line(_row_lines(data), columns)
        sample = map(_parsed, _first_lines(data, SAMPLE))
        options = pa.json.ParseOptions(
            explicit_schema=_schema(sample, columns),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        )
        try:
            table = pa.json.read_json(arrow_stream(data), parse_options=options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return _read_line_by_line(_row_lines(data), columns)
        if len(table) != block.rows:  # two objects on a line, or one on two
            return _read_line_by_line(_row_lines(data), columns)
        return Rows(table.select(columns))

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """None: a JSON-lines file has no statistics."""
        return None

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Line numbers and lines."""
        return self._lines.raw(block, positions)


def _first_lines(data: bytes, most: int) -> list[bytes]:
    """The first lines, blank ones too. Looks at no more of the text than it must."""
    lines: list[bytes] = []
    start = 0
    while len(lines) < most and start <= len(data):
        stop = data.find(b"\n", start)
        stop = len(data) if stop < 0 else stop
        lines.append(data[start:stop])
        start = stop + 1
    return lines


def _row_lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [lines[n] for n in line_records(data).lines]


def _is_safe(data: bytes, rows: TextRows) -> bool:
    """Whether all of these lines are UTF-8, and none is nested too deeply or null.

    pyarrow crashes on a null before the first object of what it reads at a time.
    """
    text = np.frombuffer(data, np.uint8)
    opening = text[rows.starts] == ord("{")  # of all rows, where nobody has edited the file
    if not opening.all() and (data.lstrip()[:1] == b"n" or NULL.search(data)):
        return False
    try:
        _ = data.isascii() or data.decode()
    except UnicodeDecodeError:
        return False
    signs = np.count_nonzero(text == ord("{")) + np.count_nonzero(text == ord("["))
    if signs - np.count_nonzero(opening) < MAX_DEPTH:  # even if one row had all others, too
        return True
    suspicious = MANY_OPENING.search(data.translate(None, NOT_OPENING))
    return suspicious is None or not any(map(_is_deep, data.split(b"\n")))


def _is_deep(line: bytes) -> bool:
    """Whether more than MAX_DEPTH brackets are open at once; those in texts do not count."""
    if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
        return False
    signs = np.frombuffer(TEXT.sub(b"", line), np.uint8)
    steps = np.isin(signs, list(b"[{")).astype(np.int64) - np.isin(signs, list(b"]}"))
    return bool(np.cumsum(steps).max(initial=0) > MAX_DEPTH)


def _parsed(line: bytes) -> dict[str, Any] | str:
    """The line's object, or what is wrong with it."""
    if _is_deep(line):
        return DEEP
    try:
        found = json.loads(line.decode())
        if SURROGATE.search(line):  # half of a pair is not a character
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeError:
        return ENCODING
    except ValueError:
        return BROKEN
    return found if isinstance(found, dict) else BROKEN


def _schema(sample: Iterable[dict[str, Any] | str], columns: Sequence[str]) -> pa.Schema:
    """The columns' types, inferred from a few lines. Other blocks are read line by line.

    Arrow's own inference would turn some texts into times and lose digits of long integers.
    """
    objects = [found for found in sample if isinstance(found, dict)]
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
    parsed = {n: _parsed(line) for n, line in enumerate(lines)}
    objects = {n: found for n, found in parsed.items() if isinstance(found, dict)}
    broken = {n: fault for n, fault in parsed.items() if isinstance(fault, str)}
    for column in columns:
        _set_rarer_kind_aside(objects, column, broken)
    good = [n for n in objects if n not in broken]
    values = {c: [objects[n].get(c) for n in good] for c in columns}
    table = pa.table({c: _array(found) for c, found in values.items()})
    return Rows(aligned(table, np.asarray(good, dtype=np.int64), len(lines)), broken)


def _set_rarer_kind_aside(
    objects: Mapping[int, dict[str, Any]], column: str, broken: dict[int, str]
) -> None:
    """If a column has both lists and single values, rows of the rarer kind are broken."""
    values = {n: found.get(column) for n, found in objects.items()}
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
