"""Publishing beside a run, in a thread of its own: a slow place delays nothing.

A champion that cannot be published is reported, and the next one is tried: training continues.
"""

import threading
from collections.abc import Callable, Iterable

from divergence.errors import InputError, one_line
from orchestrator.config.schema import PublishConfig, RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.background import BackgroundWork
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store


def open_publisher(config: RunConfig, options: PublishConfig, run: Store) -> Publisher:
    """The publisher of a run's champions; InputError where its place cannot be used."""
    try:
        return Publisher(config, run, open_store(options.to), options)
    except OSError as error:
        raise InputError(f"publish.to: {options.to}: cannot be read: {error}") from None


class BackgroundPublisher(BackgroundWork):
    """Publishes the newest champion among those that it is offered."""

    def __init__(self, publisher: Publisher, say: Callable[[str], None]) -> None:
        """`say` shows a message; it is called in the caller's thread only."""
        super().__init__("publish", say, "the last champion may not be published")
        self._publisher = publisher
        self._lock = threading.Lock()
        self._next: CycleRecord | None = None

    def offer(self, records: Iterable[CycleRecord]) -> None:
        """Publish the champion of a committed cycle.

        One that is not published yet when the next is offered is skipped.
        """
        for record in (r for r in records if r.arm == self._publisher.arm):
            with self._lock:
                self._next = record
            self._start(self._publish)

    def _publish(self) -> None:
        with self._lock:
            record, self._next = self._next, None
        if record is None:
            return
        try:
            self._publisher.publish(record)
        except Exception as error:  # whatever the place does, the run continues
            self._messages.append(f"cycle {record.cycle} was not published: {one_line(error)}")
