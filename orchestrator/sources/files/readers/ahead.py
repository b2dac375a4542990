"""Reads the next block of a file in a thread while the caller works on this one."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa

from orchestrator.sources.files.rows import Block, Reader, Rows
from orchestrator.storage.background import BackgroundThread

T = TypeVar("T")
MOST_BYTES = 64 << 20
"""Nothing is read ahead of a larger block: memory would have to hold two of them."""


class _Ahead(NamedTuple):
    """The block that is read ahead, by its number, and what `_read_number` will give."""

    number: int
    columns: Sequence[str]
    found: "Future[tuple[Block | None, Rows | Exception | None]]"


class AheadReader:
    """A reader whose every call runs in `thread`, one at a time.

    Who reads a block gets the next one sooner. Who only asks for blocks has nothing read ahead.
    """

    def __init__(self, reader: Reader, thread: BackgroundThread) -> None:
        self._reader, self._thread = reader, thread
        self._rest: Iterator[Block] | None = None
        self._blocks: list[Block] = []
        """Those that are known, in order."""
        self._numbers: dict[int, int] = {}
        """The number of a block, by its start."""
        self._fault: Exception | None = None
        self._ahead: _Ahead | None = None

    def blocks(self) -> Iterator[Block]:
        """The file's blocks, in order."""
        number = 0
        while (block := self._block(number)) is not None:
            yield block
            number += 1

    def columns(self) -> Sequence[str]:
        """The names of its columns."""
        return self._run(self._reader.columns)

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns of a block."""
        number, ahead = self._numbers.get(block.start, -1), self._ahead
        if ahead is not None and (ahead.number, ahead.columns) == (number, columns):
            self._ahead = None
            _, rows = ahead.found.result()
            if isinstance(rows, Exception):
                raise rows
            assert rows is not None, "the block is there, since its number is known"
        else:
            rows = self._run(partial(self._reader.read, block, columns))
        if number >= 0 and rows.table.nbytes <= MOST_BYTES:
            following = self._thread.submit(partial(self._read_number, number + 1, columns))
            self._ahead = _Ahead(number + 1, columns, following)
        return rows

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """The column's smallest and largest value in a block, if the file says so."""
        return self._run(partial(self._reader.extremes, block, column))

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """The numbers and contents of some rows."""
        return self._run(partial(self._reader.raw, block, positions))

    def _run(self, call: Callable[[], T]) -> T:
        return self._thread.submit(call).result()

    def _block(self, number: int) -> Block | None:
        if self._ahead is not None and self._ahead.number == number:
            return self._ahead.found.result()[0]
        return self._run(partial(self._find, number))

    # -- in the thread

    def _read_number(
        self, number: int, columns: Sequence[str]
    ) -> tuple[Block | None, Rows | Exception | None]:
        """A block and its rows, or why they cannot be read: that concerns only who reads them."""
        block = self._find(number)
        if block is None:
            return None, None
        try:
            return block, self._reader.read(block, columns)
        except Exception as error:
            return block, error

    def _find(self, number: int) -> Block | None:
        """The block of this number, which is at most one beyond those that are known.

        An error is raised again by every later call.
        """
        if number < len(self._blocks):
            return self._blocks[number]
        if self._fault is not None:
            raise self._fault
        try:
            self._rest = self._rest or iter(self._reader.blocks())
            block = next(self._rest, None)
        except Exception as error:
            self._fault = error
            raise
        if block is not None:
            self._numbers[block.start] = number
            self._blocks.append(block)
        return block
