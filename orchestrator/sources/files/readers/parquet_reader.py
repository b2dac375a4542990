"""Parquet files, row groups at a time. A damaged file may crash the process: see `IsolatedParquet`.

Apart from a crash, whatever is wrong with a file raises some exception; `IsolatedParquet` makes it
an `InputError`.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from divergence.errors import InputError, one_line
from orchestrator.sources.files.files import File
from orchestrator.sources.files.readers.lines import ENCODING
from orchestrator.sources.files.rows import Block, Rows, aligned

BLOCK_ROWS = 1 << 16
LONG = 0.25


class ParquetReader:
    """One open Parquet file. A block is a row group, or several small ones."""

    def __init__(self, file: File) -> None:
        self._file = file
        try:
            self._handle = file.open()
            self._parquet = pq.ParquetFile(self._handle)
            self._names = tuple(_checked_name(field) for field in self._parquet.schema_arrow)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file.name} is not readable Parquet: {one_line(error)}") from error
        self._metadata = self._parquet.metadata
        texts = (field.name for field in self._parquet.schema_arrow if field.type == pa.string())
        self._encode(frozenset(texts))

    def blocks(self) -> list[Block]:
        """Row groups; small ones are joined up to about BLOCK_ROWS rows."""
        groups = self._metadata.num_row_groups
        counts = [self._metadata.row_group(group).num_rows for group in range(groups)]
        if min(counts, default=0) < 0 or sum(counts) != self._metadata.num_rows:
            raise InputError(
                f"{self._file.name} is damaged: its row groups have {counts} rows, "
                f"but the file {self._metadata.num_rows}"
            )
        cuts, gathered = [0], 0
        for group, rows in enumerate(counts):
            gathered += rows
            if gathered >= BLOCK_ROWS or group == groups - 1:
                cuts.append(group + 1)
                gathered = 0
        return [
            Block(start, stop, 1 + sum(counts[:start]), sum(counts[start:stop]))
            for start, stop in pairwise(cuts)
        ]

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        return self._names

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns, with the file's own types; bytes are texts."""
        return self._read_encoded(block, columns) or self._read_plain(block, columns)

    def _read_encoded(self, block: Block, columns: Sequence[str]) -> Rows | None:
        """The same with texts as dictionaries, as most files hold them: twice as fast.

        None if anything is wrong. What it is, plain texts tell.
        """
        try:
            table = _with_texts(self._table(self._encoded, block, columns))
            table.validate(full=True)
        except Exception:  # whatever a damaged file raises
            return None
        if len(table) != block.rows:
            return None
        long = {name for name in self._texts.intersection(columns) if _is_long(table.column(name))}
        if long:
            self._encode(self._texts - long)  # from the next block on
        return Rows(table, declared=True)

    def _encode(self, texts: frozenset[str]) -> None:
        """Read these columns as dictionaries."""
        self._texts = texts
        options: dict[str, Any] = {"read_dictionary": sorted(texts), "metadata": self._metadata}
        self._encoded = pq.ParquetFile(self._handle, **options)

    def _read_plain(self, block: Block, columns: Sequence[str]) -> Rows:
        table = self._table(self._parquet, block, columns)
        if len(table) != block.rows:
            raise InputError(
                f"{self._file.name} is damaged: {len(table)} rows from row {block.first} on, "
                f"but its metadata say {block.rows}"
            )
        table = _with_texts(table)
        try:
            table.validate(full=True)
        except pa.ArrowInvalid as error:
            broken = _broken_texts(table)
            if not broken:
                raise InputError(f"{self._file.name} is damaged: {one_line(error)}") from error
            good = np.array([row for row in range(len(table)) if row not in broken], np.int64)
            return Rows(aligned(table.take(good), good, len(table)), broken, declared=True)
        return Rows(table, declared=True)

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """From the file's statistics. None for texts, which sort differently from times."""
        kind = self._parquet.schema_arrow.field(column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            return None
        found = []
        for group in range(block.start, block.stop):
            leaf = self._leaf(group, column)
            statistics = None if leaf is None else leaf.statistics
            if statistics is None or not statistics.has_min_max:
                return None
            try:
                found += [statistics.min, statistics.max]
            except OverflowError:  # a time that Python cannot express
                return None
        if any(value != value for value in found):  # NaT, the smallest time in nanoseconds
            return None
        return pa.array([min(found), max(found)], kind)

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Row numbers and rows as JSON."""
        table = self._table(self._parquet, block, self._names).take(positions)
        values = [[_shown(value) for value in column] for column in table.columns]
        rows = (
            dict(zip(table.column_names, row, strict=True)) for row in zip(*values, strict=True)
        )
        texts = (json.dumps(row, default=str, ensure_ascii=False) for row in rows)
        return [(block.first + at, text) for at, text in zip(positions, texts, strict=True)]

    def _table(self, file: pq.ParquetFile, block: Block, columns: Sequence[str]) -> pa.Table:
        return file.read_row_groups(range(block.start, block.stop), list(columns))

    def _leaf(self, group: int, column: str) -> Any:
        """The column's entry in the metadata, by name: nested columns shift the others' indices."""
        leaves = self._metadata.row_group(group)
        places = range(leaves.num_columns)
        return next((c for c in map(leaves.column, places) if c.path_in_schema == column), None)


def _is_long(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary has so many entries that it costs more than it saves."""
    return sum(len(chunk.dictionary) for chunk in column.chunks) > LONG * len(column)


def _checked_name(field: pa.Field) -> str:
    """The field's name. `UnicodeDecodeError` if that, or a name in its type, is not UTF-8."""
    _ = getattr(field.type, "tz", None)
    for at in range(field.type.num_fields):
        _checked_name(field.type.field(at))
    return str(field.name)


def _with_texts(table: pa.Table) -> pa.Table:
    for at, name in enumerate(table.column_names):
        table = table.set_column(at, name, _as_texts(table.column(at)))
    return table


def _as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes as texts, not checked yet."""
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    kind = _text_type(column.type)
    if kind == column.type:
        return column
    return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)


def _text_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.large_string()
    if pa.types.is_list(kind) and _text_type(kind.value_type) != kind.value_type:
        return pa.list_(_text_type(kind.value_type))
    return kind


def _broken_texts(table: pa.Table) -> dict[int, str]:
    """The rows with a text that is not UTF-8."""
    broken: dict[int, str] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            bad = (row for row, value in enumerate(column) if not _is_text(value))
            broken.update({row: broken.get(row, f"{name} is {ENCODING}") for row in bad})
    return broken


def _is_text(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except UnicodeDecodeError:
        return False
    except (ValueError, OverflowError):  # a time that Python cannot express
        return True
    return True


def _shown(value: pa.Scalar) -> Any:
    """The value for people, whatever it contains."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        if hasattr(value, "as_buffer"):
            return value.as_buffer().to_pybytes().decode(errors="replace")
        return f"a {value.type} that cannot be shown"
