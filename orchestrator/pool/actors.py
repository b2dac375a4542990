"""The actors of a pool as Ray has them: started, waited for, ended; whatever it is they train.

Ray restarts and retries nothing: a dead actor is replaced by a new one, which must say that it is
ready before it counts as up.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError

from divergence.errors import InputError
from orchestrator.pool.handle import ActorHandle
from orchestrator.pool.ray_errors import node_is_lost, told

log = logging.getLogger(__name__)
START_S = 180.0
"""How long there may be no actor that is ready."""
MOST_FAILED_STARTS = 5
LOOK_S = 1.0
MANY = 64
"""Calls under way from which on all answers that are there are taken at once."""


class ActorSet:
    """Actors of which any may die at any time. `actors` has those that are starting, too."""

    def __init__(self, new: Callable[[], Any]) -> None:
        """`new` makes an actor and gives its handle."""
        self._new = new
        self.actors: list[ActorHandle] = []
        self._failed_starts = 0
        self._alone_since = time.monotonic()

    @property
    def up(self) -> list[ActorHandle]:
        """Those that are ready for orders."""
        return [actor for actor in self.actors if actor.ready is None]

    def resize(self, size: int) -> None:
        """Have so many actors, those that are starting included; these go first, then idle ones.

        One that is starting may be waiting for a node that is gone for ever.
        """
        if size != len(self.actors):
            log.info("the pool is to have %d trainer processes, not %d", size, len(self.actors))
        for actor in sorted(self.actors, key=lambda a: (a.ready is not None, not a.calls))[size:]:
            self.remove(actor)
        while len(self.actors) < size:
            self._start()

    def close(self) -> None:
        """End all."""
        for actor in list(self.actors):
            self.remove(actor)

    def replace(self, actor: ActorHandle) -> None:
        """End an actor and start another."""
        self.remove(actor)
        self._start()

    def remove(self, actor: ActorHandle) -> None:
        """End an actor. Until now there was one that is ready, if it was."""
        self.actors.remove(actor)
        actor.gone = True
        if actor.ready is None:
            self._alone_since = time.monotonic()
        with suppress(RayError):
            ray.kill(actor.handle)

    def answers(self, until: float | None) -> list[tuple[ActorHandle, Any]]:
        """Sleep until an answer is there, but not beyond `until`: who answers, and the reference.

        None where all are ready and wait for orders.
        """
        refs = {ref: actor for actor in self.actors for ref in actor.awaited}
        if not refs:
            return []
        left_s = LOOK_S if until is None else until - time.monotonic()
        timeout = min(max(left_s, 0.0), LOOK_S)
        answered, owed = ray.wait(list(refs), num_returns=1, timeout=timeout)
        if len(owed) > MANY:  # a look at all costs the same for one answer and for many
            answered += ray.wait(owed, num_returns=len(owed), timeout=0)[0]
        return [(refs[ref], ref) for ref in answered]

    def is_up(self, actor: ActorHandle) -> None:
        """It has said that it is ready."""
        actor.ready, self._failed_starts = None, 0

    def note_failure(self, actor: ActorHandle, error: RayError) -> None:
        """An actor died. InputError where one after the other does before it is ready."""
        self._failed_starts += actor.ready is not None and not node_is_lost(error)
        if self._failed_starts >= MOST_FAILED_STARTS:
            raise InputError(f"no trainer process starts: {told(error)}") from error

    def must_not_be_alone(self) -> None:
        """InputError where no actor has been ready for too long."""
        now = time.monotonic()
        if self.up:
            self._alone_since = now
        elif now - self._alone_since > START_S:
            raise InputError(
                f"no trainer process has started in {START_S:.0f} s: are there free CPUs?"
            )

    def _start(self) -> None:
        handle = self._new()
        self.actors.append(ActorHandle(handle, handle.ready.remote()))
