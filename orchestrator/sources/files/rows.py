"""Rows of a file as a reader returns them, good and broken ones together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a file, read together.

    `start` and `stop` are bytes of a text file (decompressed) or row groups of a Parquet file;
    `first` is the number of its first line or row, counted from 1 as people do.
    """

    start: int
    stop: int
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class Rows:
    """One table row for each row of the file. A broken row has a reason and may be all null.

    `declared`: the file declares its columns' types; else they are inferred from some rows.
    """

    table: pa.Table
    broken: Mapping[int, str] = field(default_factory=dict)
    declared: bool = False


class Reader(Protocol):
    """One open file."""

    def blocks(self) -> Iterator[Block]:
        """The file's blocks, in order."""
        ...

    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        ...

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns of a block."""
        ...

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """The column's smallest and largest value in a block; None if that needs reading it."""
        ...

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """The line (or row) numbers and the contents of these rows of a block, for people."""
        ...


def aligned(good: pa.Table, positions: NDArray[np.int64], rows: int) -> pa.Table:
    """A table of `rows` rows with the good ones at their positions and nulls elsewhere."""
    where = np.full(rows, -1)
    where[positions] = np.arange(len(good))
    return good.take(pa.array(where, mask=where < 0))
