"""The work of requests, done in the event loop in short slices.

The event loop also answers /health, which must not wait. A thread beside it would hold it up all
the same: the interpreter runs one thread at a time, and each time that the loop reads or writes a
socket it would wait for that thread to give way. Hence there is no thread: work is a generator that
yields every few milliseconds, and between slices the loop turns.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter
from typing import NamedTuple

SLICE_S = 0.002
"""Small requests are answered for this long before the loop turns."""

TURNS_BETWEEN = 6
"""Turns of the event loop between two slices: a new connection that asks for /health is accepted,
read and answered in them."""

MAX_LARGE = 64
"""How many large requests may wait."""


class BusyError(Exception):
    """Too many large requests at once."""


class Answer(NamedTuple):
    """What a request gets."""

    status: int
    body: bytes
    kind: str = "application/json"


Work = Generator[None, None, Answer]


class PendingRequest(NamedTuple):
    """Some work, and what to call with its answer or with the error that ended it."""

    work: Work
    done: Callable[[Answer | Exception], None]


class Turns:
    """Small requests at once or in turn; slices of them and of large ones alternate."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._small, self._large = deque[PendingRequest](), deque[PendingRequest]()
        self._resting, self._last_was_large, self._spent_s = False, False, 0.0

    def add(self, job: PendingRequest, large: bool) -> None:
        """Do this work soon, maybe at once; BusyError if there is too much of it."""
        if large and len(self._large) >= MAX_LARGE:
            raise BusyError(f"busy: {MAX_LARGE} large requests are already waiting")
        (self._large if large else self._small).append(job)
        if not self._resting:
            self._work()

    def _work(self) -> None:
        """Work for a slice, then let the loop turn."""
        began = perf_counter() - self._spent_s
        if self._large and not (self._small and self._last_was_large):
            self._step(self._large)
            self._last_was_large = True
        else:
            while self._small and perf_counter() - began < SLICE_S:
                self._step(self._small)
            self._last_was_large = False
        self._spent_s = perf_counter() - began
        if self._small or self._large or self._spent_s > SLICE_S:
            self._rest(TURNS_BETWEEN)

    def _step(self, queue: deque[PendingRequest]) -> None:
        """Do a slice of the first job. One that is not done waits for its next turn."""
        job = queue.popleft()
        try:
            next(job.work)
        except StopIteration as stop:
            job.done(stop.value)
        except Exception as error:
            job.done(error)
        else:
            queue.append(job)

    def _rest(self, turns: int) -> None:
        self._resting = turns > 0
        if self._resting:
            self._loop.call_soon(self._rest, turns - 1)
        else:
            self._spent_s = 0.0
            self._work()
