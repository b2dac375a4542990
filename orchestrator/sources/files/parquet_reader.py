"""Parquet files, row groups at a time."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from divergence.errors import InputError, one_line
from orchestrator.sources.files.files import File, file_errors
from orchestrator.sources.files.rows import Block, Rows

BLOCK_ROWS = 1 << 16


class ParquetReader:
    """One open Parquet file. A block is a row group, or several small ones."""

    def __init__(self, file: File) -> None:
        self._file = file
        try:
            self._parquet = pq.ParquetFile(file.open())
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{file.name} is not readable Parquet: {one_line(error)}") from error
        self._metadata = self._parquet.metadata

    def blocks(self) -> Iterator[Block]:
        """Row groups; small ones are joined up to about BLOCK_ROWS rows."""
        groups = self._metadata.num_row_groups
        counts = [self._metadata.row_group(group).num_rows for group in range(groups)]
        cuts, gathered = [0], 0
        for group, rows in enumerate(counts):
            gathered += rows
            if gathered >= BLOCK_ROWS or group == groups - 1:
                cuts.append(group + 1)
                gathered = 0
        for start, stop in pairwise(cuts):
            yield Block(start, stop, 1 + sum(counts[:start]), sum(counts[start:stop]))

    def columns(self) -> Sequence[str]:
        """The names in the schema."""
        return tuple(self._parquet.schema_arrow.names)

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns, with the file's own types."""
        groups = range(block.start, block.stop)
        with file_errors(self._file.name):
            table = self._parquet.read_row_groups(groups, list(columns))
        return Rows(table, declared=True)

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """From the file's statistics. None for texts, which sort differently from times."""
        kind = self._parquet.schema_arrow.field(column).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            return None
        found = []
        for group in range(block.start, block.stop):
            statistics = self._leaf(group, column).statistics
            if statistics is None or not statistics.has_min_max:
                return None
            found += [statistics.min, statistics.max]
        return pa.array([min(found), max(found)], kind)

    def _leaf(self, group: int, column: str) -> Any:
        """The column's entry in the metadata, by name: nested columns shift the others' indices."""
        leaves = self._metadata.row_group(group)
        places = range(leaves.num_columns)
        return next(c for c in map(leaves.column, places) if c.path_in_schema == column)

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Row numbers and rows as JSON."""
        rows = self.read(block, self.columns()).table.take(positions).to_pylist()
        texts = (json.dumps(row, default=str, ensure_ascii=False) for row in rows)
        return [(block.first + at, text) for at, text in zip(positions, texts, strict=True)]
