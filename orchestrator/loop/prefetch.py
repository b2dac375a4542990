"""Reads the stream one chunk ahead: the next chunk is compiled while actors train on this one."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from orchestrator.journal.record import ChunkInfo
from orchestrator.sources.digest import digest_of
from orchestrator.sources.protocol import Events, Source
from orchestrator.storage.background import BackgroundThread
from orchestrator.validation.uris import redact
from trainer.chunk import Chunk, compile_chunk
from trainer.features import FeatureSpec
from trainer.protocol import AnyChunk

T = TypeVar("T")
POLL_S = 0.2
Compile = Callable[[pa.Table], AnyChunk]


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A cycle's events. `chunk` is None where there are none; trainers read `shared`."""

    cycle: int
    info: ChunkInfo
    chunk: Any
    shared: Any
    seconds: float = 0.0
    """How long it took to read and prepare."""


Then = Callable[[PreparedChunk], None]


class Prefetcher:
    """Prepares chunks in a thread of its own, each once and in order."""

    share: Callable[[AnyChunk], Any]
    """Puts a chunk where trainers read it; set before the first chunk is started."""

    def __init__(
        self,
        source: Source,
        stop: threading.Event,
        cycles: int | None,
        compile: Compile | None = None,
    ) -> None:
        """The run ends before cycle `cycles`. `compile` makes the chunks; None: for OFFSET."""
        self._source, self._stop, self._cycles = source, stop, cycles
        self._compile = compile
        self._first: Events | None = None
        self._thread = BackgroundThread("feed")
        self._next: tuple[int, Future[PreparedChunk | None]] | None = None

    def read_first(self, cycle: int) -> bool:
        """Read the events of the first cycle, for its mistakes; False where `take` gives None."""
        self._first = self._wait(self._thread.submit(partial(self._source.events, cycle)))
        return self._first is not None

    def take(self, cycle: int) -> PreparedChunk | None:
        """The events of a cycle; None where the stream ends, or `stop` is set."""
        future = self._started(cycle)
        if future is None:
            return None
        prepared = self._wait(future)
        self._next = None
        return prepared

    def start(self, cycle: int, then: Then | None = None) -> None:
        """Start to prepare the cycle that will be taken next; call `then` with it before that."""
        self._started(cycle, then)

    def is_ready(self, cycle: int) -> bool:
        """Whether `take` of this cycle would not wait."""
        return self._next is not None and self._next[0] == cycle and self._next[1].done()

    def close(self) -> None:
        """Stop the thread; a chunk that it works on is dropped when it is done."""
        self._thread.stop()

    def _wait(self, future: "Future[T | None]") -> T | None:
        """What it gives; None where `stop` is set before that."""
        while not self._stop.is_set():
            if wait([future], timeout=POLL_S).done:
                return future.result()
        return None

    def _started(self, cycle: int, then: Then | None = None) -> Future[PreparedChunk | None] | None:
        if self._cycles is not None and cycle >= self._cycles:
            return None
        if self._next is None or self._next[0] != cycle:
            self._next = (cycle, self._thread.submit(partial(self._prepare, cycle, then)))
        return self._next[1]

    def _prepare(self, cycle: int, then: Then | None) -> PreparedChunk | None:
        began = time.perf_counter()
        events, self._first = self._first, None
        if events is None or events.cycle != cycle:
            events = self._source.events(cycle)
        if events is None:
            return None
        prepared = prepare_chunk(events, self._source.spec, self.share, self._compile)
        if then is not None:
            then(prepared)
        return replace(prepared, seconds=time.perf_counter() - began)


def prepare_chunk(
    events: Events,
    spec: FeatureSpec,
    share: Callable[[AnyChunk], Any],
    compile: Compile | None = None,
) -> PreparedChunk:
    """Compile a cycle's events, for OFFSET by default, and put the chunk where trainers read it."""
    compiled = compile or (lambda table: compile_chunk(table, spec))
    chunk = compiled(events.table) if len(events.table) else None
    info = ChunkInfo(
        origin=redact(events.origin),
        events=len(events.table),
        clicks=int(chunk.click.sum()) if chunk else 0,
        constant_logloss=float(chunk.constant_logloss) if chunk else 0.0,
        set_aside=dict(events.set_aside),
        newest=newest_event(events.table, spec.timestamp),
        digest=digest_of(events.table),
    )
    shared = None
    if chunk is not None:
        shared = share(chunk)
        if isinstance(chunk, Chunk):  # computed here, not in the driver's thread
            _ = chunk.user_keys.pairs, chunk.ad_keys.pairs
    return PreparedChunk(events.cycle, info, chunk, shared)


def newest_event(table: pa.Table, timestamp: str | None) -> str | None:
    """The time of the last event of a chunk, which is in order."""
    if timestamp is None or not len(table) or not pa.types.is_timestamp(table[timestamp].type):
        return None
    found: datetime = table[timestamp].cast(pa.timestamp("us", tz="UTC"))[-1].as_py()
    return found.isoformat()
