"""A thread for calls that may never return, such as those of a file system that hangs."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class BackgroundThread:
    """Runs calls one after the other.

    Unlike those of a ThreadPoolExecutor, the thread does not keep the process alive at its end.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Run a call after those before it."""
        future: Future[T] = Future()
        self._calls.put((future, call))
        return future

    def stop(self, wait_s: float = 0.0) -> None:
        """Start no further call. Waits this long for the one that runs."""
        self._stopped.set()
        self._calls.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(wait_s)

    def _run(self) -> None:
        while (entry := self._calls.get()) is not None:
            future, call = entry
            if self._stopped.is_set():
                future.cancel()
            elif future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # the caller's, who asks for the result
                    future.set_exception(error)
            del future, call, entry  # the queue may wait long


class BackgroundWork(AbstractContextManager[Any]):
    """Work beside a run, in a thread of its own: one that is slow delays nothing."""

    LAST_S = 120.0
    """How long a run that ends waits for the last of it."""

    def __init__(self, name: str, say: Callable[[str], None], unfinished: str) -> None:
        """`say` shows a message; it is called in the caller's thread only. `unfinished` is shown
        where the last call takes too long."""
        self._thread, self._say, self._unfinished = BackgroundThread(name), say, unfinished
        self._last: Future[None] | None = None
        self._messages: deque[str] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Wait a while for the last call; not where the user stops at once."""
        patience_s = 0.0 if isinstance(error, KeyboardInterrupt) else self.LAST_S
        if self._last is not None and not wait([self._last], patience_s).done:
            self._messages.append(self._unfinished)
        self._thread.stop()
        self._show_messages()

    def _start(self, call: Callable[[], None]) -> None:
        """Run a call after those before it. What it says is shown with the next one."""
        self._last = self._thread.submit(call)
        self._show_messages()

    def _show_messages(self) -> None:
        while self._messages:
            self._say(self._messages.popleft())
