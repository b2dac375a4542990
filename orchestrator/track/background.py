"""Tracking beside a run: a folder that fails or hangs neither stops nor slows it.

What could not be logged is kept, a few numbers for each cycle, and tried again after every cycle.
"""

import threading
from collections.abc import Callable, Iterable

from divergence.errors import one_line
from orchestrator.journal.record import CycleRecord
from orchestrator.storage.background import BackgroundWork
from orchestrator.track.event_log import EventLog
from orchestrator.track.tracked_cycle import TrackedCycle, tracked


class BackgroundTracker(BackgroundWork):
    """Logs every cycle that it is offered."""

    def __init__(self, log: EventLog, say: Callable[[str], None]) -> None:
        """`say` shows a message; it is called in the caller's thread only."""
        super().__init__("track", say, "the last cycles may not be tracked")
        self._log = log
        self._lock = threading.Lock()
        self._pending: list[TrackedCycle] = []
        self._failing = False

    def offer(self, records: Iterable[CycleRecord]) -> None:
        """Log a committed cycle, after those of the journal that are still to be logged."""
        points = list(map(tracked, records))
        with self._lock:
            self._pending += points
        self._start(self._append)

    def _append(self) -> None:
        with self._lock:
            points = tuple(self._pending)
        try:
            self._log.append(points)
        except Exception as error:  # whatever the place does, the run continues
            if not self._failing:
                self._messages.append(f"not tracked, but tried again later: {one_line(error)}")
            self._failing = True
            return
        if self._failing:
            self._messages.append("tracking works again: no cycle is missing")
        self._failing = False
        with self._lock:
            del self._pending[: len(points)]
