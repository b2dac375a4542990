"""A set of files as a stream of cycles.

| case | order of events |
|---|---|
| within a cycle | by time; events of one instant in the order of file name and line |
| cut by minutes | an event is in the cycle of its time, whichever file and line it is in |
| cut by events | a cycle is that many rows, broken ones too, in the order of file name and line |
| a row without a readable time, cut by minutes | counted as broken in the cycle of the row before |
"""

import logging
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from divergence.errors import InputError
from orchestrator.sources.files.chunks import Chunks, Part
from orchestrator.sources.files.config import FilesConfig
from orchestrator.sources.files.decoder import Decoder, instant
from orchestrator.sources.files.files import File, find_files
from orchestrator.sources.files.rows import Block
from orchestrator.sources.protocol import Events
from trainer.features import FeatureSpec

MAX_CYCLES = 1_000_000
log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A block in the index: its first row's number in the stream, and its first and last time."""

    file: File
    block: Block
    first_row: int
    span: tuple[int, int] | None


class FileSource:
    """Existing files, cut by count or by time. Gives any cycle, in any order."""

    def __init__(self, config: FilesConfig, spec: FeatureSpec, run_uri: str | None = None) -> None:
        if config.cut.minutes is not None and spec.timestamp is None:
            raise InputError(
                "source.cut.minutes needs features.timestamp; set it, or cut by events"
            )
        self.spec = spec
        self._cut = config.cut
        self._files = find_files(config.path, config.storage_options)
        self._decoder = Decoder(config, spec)
        first = config.path if isinstance(config.path, str) else config.path[0]
        self._chunks = Chunks(self._decoder, first, run_uri)
        self._index: list[Entry] = []
        self._rows = 0
        self._unread: Iterator[object] = self._scan()

    def events(self, cycle: int) -> Events | None:
        """The events of a cycle, or None after the last."""
        found = self._by_time(cycle) if self._cut.events is None else self._by_count(cycle)
        return None if found is None else self._chunks.events(cycle, *found)

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
            ticks = self._decoder.decode(entry.file, entry.block).ticks
            ticks = np.where(ticks < 0, first, ticks)
            inside = np.flatnonzero((ticks >= start) & (ticks < stop))
            if len(inside):
                parts.append(Part(entry.file, entry.block, inside))
        return parts, f"{instant(start)} to {instant(stop)} of {_names(parts)}"

    def _clock(self) -> tuple[int, int, int]:
        """The start of cycle 0, the last event and the length of a cycle, in microseconds."""
        fresh = False
        while self._index_more():
            fresh = True
        spans = [entry.span for entry in self._index if entry.span is not None]
        begin = self._cut.start
        first = min((low for low, _ in spans), default=0)
        first = first if begin is None else round(begin.timestamp() * 1e6)
        last = max((high for _, high in spans), default=first if self._rows else first - 1)
        length = round((self._cut.minutes or 1) * 60e6)
        if (last - first) // length >= MAX_CYCLES:
            raise InputError(
                f"the events from {instant(first)} to {instant(last)} make more than "
                f"{MAX_CYCLES} cycles of {self._cut.minutes:g} minutes; are the times right?"
            )
        if fresh:
            _warn_if_unsorted(spans, last - first)
        return first, last, length


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
