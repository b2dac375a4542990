"""Publishing beside a run, in a thread of its own: a slow place delays nothing.

A champion that cannot be published is reported, and the next one is tried: training continues.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from types import TracebackType

from divergence.errors import InputError
from orchestrator.config.schema import PublishConfig, RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.background import BackgroundThread
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store

LAST_S = 120.0
"""How long a run that ends waits for its last champion to be published."""


def open_publisher(config: RunConfig, options: PublishConfig, run: Store) -> Publisher:
    """The publisher of a run's champions; InputError where its place cannot be used."""
    try:
        return Publisher(config, run, open_store(options.to), options)
    except OSError as error:
        raise InputError(f"publish.to: {options.to}: cannot be read: {error}") from None


class BackgroundPublisher(AbstractContextManager["BackgroundPublisher"]):
    """Publishes the newest champion among those that it is offered."""

    def __init__(self, publisher: Publisher, say: Callable[[str], None]) -> None:
        """`say` shows a message; it is called in the caller's thread only."""
        self._publisher, self._say = publisher, say
        self._thread = BackgroundThread("publish")
        self._lock = threading.Lock()
        self._next: CycleRecord | None = None
        self._last: Future[None] | None = None
        self._messages: deque[str] = deque()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait a while for the last champion; not where the user stops at once."""
        patience_s = 0.0 if isinstance(error, KeyboardInterrupt) else LAST_S
        if self._last is not None and not wait([self._last], patience_s).done:
            self._messages.append("the last champion may not be published")
        self._thread.stop()
        self._show_messages()

    def offer(self, records: Iterable[CycleRecord]) -> None:
        """Publish the champion of a committed cycle.

        One that is not published yet when the next is offered is skipped.
        """
        for record in (r for r in records if r.arm == self._publisher.arm):
            with self._lock:
                self._next = record
            self._last = self._thread.submit(self._publish)
        self._show_messages()

    def _publish(self) -> None:
        with self._lock:
            record, self._next = self._next, None
        if record is None:
            return
        try:
            self._publisher.publish(record)
        except Exception as error:  # whatever the place does, the run continues
            reason = " ".join(str(error).split()) or type(error).__name__
            self._messages.append(f"cycle {record.cycle} was not published: {reason}")

    def _show_messages(self) -> None:
        while self._messages:
            self._say(self._messages.popleft())
