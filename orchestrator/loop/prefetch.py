"""The stream, one chunk ahead: the next one is read and compiled while actors train on this."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from orchestrator.journal.record import ChunkInfo
from orchestrator.sources.protocol import Source
from trainer.chunk import Chunk, compile_chunk

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class PreparedChunk:
    """A cycle's events. `chunk` is None where there are none; `shared` is it in the store."""

    cycle: int
    info: ChunkInfo
    chunk: Chunk | None
    shared: Any
    seconds: float


class Prefetcher:
    """Prepares chunks in a thread of its own, each once, in order."""

    def __init__(
        self,
        source: Source,
        share: Callable[[Chunk], Any],
        stop: threading.Event,
        cycles: int | None,
    ) -> None:
        """`share` puts a chunk where actors read it; `cycles` is where the run ends."""
        self._source, self._share, self._stop, self._cycles = source, share, stop, cycles
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._next: tuple[int, Future[PreparedChunk | None]] | None = None

    def take(self, cycle: int) -> PreparedChunk | None:
        """The events of a cycle; None where the stream ends, or `stop` is set first."""
        future = self._begun(cycle)
        while future is not None and not future.done():
            if self._stop.is_set():
                return None
            wait([future], timeout=LOOK_S)
        fed = None if future is None else future.result()
        self._next = None
        return fed

    def begin(self, cycle: int) -> None:
        """Begin to prepare a cycle that will be asked for next."""
        self._begun(cycle)

    def is_ready(self, cycle: int) -> bool:
        """Whether `take` of this cycle would not wait."""
        return self._next is not None and self._next[0] == cycle and self._next[1].done()

    def close(self) -> None:
        """End the thread; a chunk under way is dropped when it is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begun(self, cycle: int) -> Future[PreparedChunk | None] | None:
        if self._cycles is not None and cycle >= self._cycles:
            return None
        if self._next is None or self._next[0] != cycle:
            self._next = (cycle, self._thread.submit(self._prepare, cycle))
        return self._next[1]

    def _prepare(self, cycle: int) -> PreparedChunk | None:
        begin = time.perf_counter()
        events = self._source.events(cycle)
        if events is None:
            return None
        chunk = compile_chunk(events.table, self._source.spec) if len(events.table) else None
        info = ChunkInfo(
            origin=events.origin,
            events=len(events.table),
            clicks=int(chunk.click.sum()) if chunk else 0,
            constant_logloss=float(chunk.constant_logloss) if chunk else 0.0,
            set_aside=dict(events.set_aside),
            newest=newest_event(events.table, self._source.spec.timestamp),
        )
        shared = None
        if chunk is not None:
            shared = self._share(chunk)
            _ = chunk.user_keys.pairs, chunk.ad_keys.pairs  # made here rather than by the driver
        return PreparedChunk(cycle, info, chunk, shared, time.perf_counter() - begin)


def newest_event(table: pa.Table, timestamp: str | None) -> str | None:
    """The time of the last event of a chunk, which is in order."""
    if timestamp is None or not len(table) or not pa.types.is_timestamp(table[timestamp].type):
        return None
    found: datetime = table[timestamp].cast(pa.timestamp("us", tz="UTC"))[-1].as_py()
    return found.isoformat()
