"""A fixed set of files, cut into cycles by count or by time.

| case | order of events |
|---|---|
| within a cycle | by time; events of one instant in the order of file name and line |
| cut by minutes | an event is in the cycle of its time, whichever file and line it is in |
| cut by events | a cycle is that many rows, broken ones too, in the order of file name and line |
| a row without a readable time, cut by minutes | counted as broken in the cycle of the row before |
"""

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.sources.files.chunks import Part
from orchestrator.sources.files.config import Cut
from orchestrator.sources.files.decoder import Decoder, instant
from orchestrator.sources.files.files import File
from orchestrator.sources.files.rows import Block

MAX_CYCLES = 1_000_000
log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A block in the index: its first row's number in the stream, and its first and last time."""

    file: File
    block: Block
    first_row: int
    span: tuple[int, int] | None


class Rest(NamedTuple):
    """Where the first cycle starts if earlier ones are trained, cut by minutes.

    `added` are the files that were not there before: their events before `begin_us` are late.
    `again`: a part of the first cycle is trained; it is skipped if the files add nothing to it.
    """

    begin_us: int
    added: Set[File] = frozenset()
    again: bool = False


class CutFiles:
    """The cycles of some files, counted from 0. Gives any cycle, in any order."""

    def __init__(
        self, files: Sequence[File], cut: Cut, decoder: Decoder, rest: Rest | None = None
    ) -> None:
        self._files, self._cut, self._decoder, self._rest = files, cut, decoder, rest
        self._index: list[Entry] = []
        self._rows = 0
        self._unread: Iterator[object] = self._scan()
        self._first: int | None = None

    def parts(self, number: int) -> tuple[list[Part], str] | None:
        """The rows of a cycle, and where they are from; None after the last."""
        return self._by_time(number) if self._cut.events is None else self._by_count(number)

    def begin_us(self) -> int:
        """When the first cycle starts, cut by minutes."""
        return self._clock()[0]

    def late(self) -> Counter[str]:
        """By file that was added, how many of its rows are too old for any cycle."""
        found = Counter[str]()
        if self._rest is None:
            return found
        begin = self.begin_us()
        for entry in self._index:
            if entry.file in self._rest.added and entry.span and entry.span[0] < begin:
                found[entry.file.name] += int((self._ticks(entry, begin) < begin).sum())
        return found

    def _scan(self) -> Iterator[Entry]:
        """Builds the index block by block, as far as it is consumed."""
        timed = self._cut.minutes is not None
        for file in self._files:
            for block in self._decoder.blocks(file):
                span = self._decoder.span(file, block) if timed else None
                entry = Entry(file, block, self._rows, span)
                self._rows += block.rows
                self._index.append(entry)
                yield entry

    def _index_more(self) -> bool:
        """Index one more block; False at the end. After an error, every call raises it again."""
        try:
            return next(self._unread, None) is not None
        except InputError as error:
            self._unread = iter(partial(_fail, error), None)
            raise

    def _by_count(self, cycle: int) -> tuple[list[Part], str] | None:
        size = self._cut.events or 1
        start, stop = cycle * size, (cycle + 1) * size
        while self._rows < stop and self._index_more():
            pass
        if start >= self._rows:
            return None
        parts = []
        at = bisect_right(self._index, start, key=lambda entry: entry.first_row) - 1
        for entry in self._index[max(at, 0) :]:
            if entry.first_row >= stop:
                break
            low = max(start - entry.first_row, 0)
            high = min(stop - entry.first_row, entry.block.rows)
            if low < high:
                parts.append(Part(entry.file, entry.block, np.arange(low, high)))
        return parts, f"rows {start + 1} to {min(stop, self._rows)} of {_names(parts)}"

    def _by_time(self, cycle: int) -> tuple[list[Part], str] | None:
        first, last, length = self._clock()
        start = first + cycle * length
        if start > last:
            return None
        stop, parts = start + length, []
        for entry in self._index:
            low, high = entry.span or (first, first)
            if low >= stop or high < start:
                continue
            inside = _between(self._ticks(entry, first), start, stop)
            if len(inside):
                parts.append(Part(entry.file, entry.block, inside))
        return parts, f"{instant(start)} to {instant(stop)} of {_names(parts)}"

    def _ticks(self, entry: Entry, unknown: int) -> NDArray[np.int64]:
        ticks = self._decoder.decode(entry.file, entry.block).ticks
        return np.where(ticks < 0, unknown, ticks) if ticks.min(initial=0) < 0 else ticks

    def _clock(self) -> tuple[int, int, int]:
        """The start of cycle 0, the last event and the length of a cycle, in microseconds."""
        fresh = False
        while self._index_more():
            fresh = True
        spans = [entry.span for entry in self._index if entry.span is not None]
        if self._first is None:
            self._first = self._start(min((low for low, _ in spans), default=0))
        first = self._first
        last = max((high for _, high in spans), default=first if self._rows else first - 1)
        length = cycle_us(self._cut)
        if (last - first) // length >= MAX_CYCLES:
            raise InputError(
                f"the events from {instant(first)} to {instant(last)} make more than "
                f"{MAX_CYCLES} cycles of {self._cut.minutes:g} minutes; are the times right?"
            )
        if fresh:
            _warn_if_unsorted(spans, last - first)
        return first, last, length

    def _start(self, oldest: int) -> int:
        if self._rest is None:
            begin = self._cut.start
            return oldest if begin is None else round(begin.timestamp() * 1e6)
        start, stop = self._rest.begin_us, self._rest.begin_us + cycle_us(self._cut)
        if not self._rest.again or any(self._has(entry, start, stop) for entry in self._index):
            return start
        return stop

    def _has(self, entry: Entry, start: int, stop: int) -> bool:
        if entry.span is None or entry.span[0] >= stop or entry.span[1] < start:
            return False
        ticks = self._ticks(entry, -1)
        return bool(((ticks >= start) & (ticks < stop)).any())


def cycle_us(cut: Cut) -> int:
    """The length of a cycle in microseconds, cut by minutes."""
    return round((cut.minutes or 1) * 60e6)


def _between(ticks: NDArray[np.int64], start: int, stop: int) -> NDArray[np.int64]:
    """The rows of these times. Most files are in order, where a search finds them."""
    if (ticks[1:] >= ticks[:-1]).all():
        return np.arange(*np.searchsorted(ticks, (start, stop)))
    return np.flatnonzero((ticks >= start) & (ticks < stop))


def _fail(error: InputError) -> None:
    raise error


def _warn_if_unsorted(spans: list[tuple[int, int]], length: int) -> None:
    """If blocks overlap in time, every cycle reads many of them."""
    overlap = sum(high - low for low, high in spans) / max(length, 1)
    if len(spans) > 8 and overlap > 4:
        log.warning(
            "the files are not sorted by time: a cycle reads about %.0f of %d blocks; "
            "sort them by time to make this faster",
            overlap,
            len(spans),
        )


def _names(parts: list[Part]) -> str:
    names = list(dict.fromkeys(part.file.name for part in parts))
    return ", ".join(names if len(names) <= 3 else [names[0], "…", names[-1]]) or "no file"
