"""A thread for calls that may never return, such as those of a file system that hangs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

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
