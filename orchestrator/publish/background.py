"""Publishing beside a run: in a thread of its own, so that a slow place holds nothing up.

Whatever goes wrong is told, and the next champion is tried again: training goes on.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store
from orchestrator.watch.console import View

LAST_S = 120.0
"""How long a run that ends waits for its last champion to be published."""


def publishing(view: View, config: RunConfig, run: Store, committed: Iterable[CycleRecord]) -> View:
    """A view that publishes what it is shown, where the config says so; else the view itself.

    `committed` are the newest records so far: the run may have died before it published them.
    """
    terms = config.publish
    if terms is None:
        return view
    try:
        publisher = Publisher(config, run, open_store(terms.to), terms)
    except OSError as error:
        raise InputError(f"publish.to: {terms.to}: cannot be read: {error}") from None
    return PublishingView(view, publisher, committed)


class PublishingView:
    """Shows committed cycles, and publishes the newest champion among them."""

    def __init__(
        self, view: View, publisher: Publisher, committed: Iterable[CycleRecord] = ()
    ) -> None:
        self._view, self._publisher, self._committed = view, publisher, committed
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publish")
        self._lock = threading.Lock()
        self._next: CycleRecord | None = None
        self._last: Future[None] | None = None
        self._messages: deque[str] = deque()

    def __enter__(self) -> "PublishingView":
        """Begin with what is committed already."""
        self._view.__enter__()
        self._offer(self._committed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the last champion, for a while; not where the user stops at once."""
        patience = 0.0 if isinstance(error, KeyboardInterrupt) else LAST_S
        if self._last is not None and not wait([self._last], patience).done:
            self._messages.append(f"not published within {patience:g} s: the last champion")
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._tell()
        self._view.__exit__(kind, error, trace)

    def show(self, records: Sequence[CycleRecord]) -> None:
        """Show the cycle, and have its champion published."""
        self._view.show(records)
        self._offer(records)
        self._tell()

    def say(self, message: str) -> None:
        """Say it."""
        self._view.say(message)

    def _offer(self, records: Iterable[CycleRecord]) -> None:
        """One that is not published yet when the next comes is overtaken by it."""
        for record in (r for r in records if r.arm == self._publisher.arm):
            with self._lock:
                self._next = record
            self._last = self._thread.submit(self._publish)

    def _publish(self) -> None:
        with self._lock:
            record, self._next = self._next, None
        if record is None:
            return
        try:
            self._publisher.publish(record)
        except Exception as error:  # whatever it is: it is the place's, and must not end the run
            told = " ".join(str(error).split()) or type(error).__name__
            self._messages.append(f"cycle {record.cycle} is not published: {told}")

    def _tell(self) -> None:
        """In the thread of the view: views are not made for two."""
        while self._messages:
            self._view.say(self._messages.popleft())
