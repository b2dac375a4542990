"""The actors of a pool as Ray has them: started, waited for, replaced; whatever they train.

Ray restarts and retries nothing: a dead actor is replaced by a new one, which must say that it is
ready before it gets work.
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
from orchestrator.pool.ray_errors import first_line, node_is_lost

log = logging.getLogger(__name__)
START_S = 180.0
"""How long a run may have no actor that is ready at its start."""
MAX_FAILED_STARTS = 5
POLL_S = 1.0
MANY = 64
"""With more pending calls than this, all answers that have arrived are taken together."""


def actor_class(kind: type, cores: int, threads: int) -> Any:
    """A class whose `remote` starts a Ray actor: one per call, spread over all nodes."""
    remote: Any = ray.remote  # its stubs lack the options of actors
    return remote(
        num_cpus=cores,
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=threads,
        scheduling_strategy="SPREAD",
    )(kind)


class ActorSet:
    """Actors of which any may die at any time. `all` includes those that are starting."""

    def __init__(self, new: Callable[[], Any], trained: bool = False) -> None:
        """`new` makes an actor and gives its handle."""
        self._new = new
        self.all: list[ActorHandle] = []
        self._failed_starts = 0
        self._none_ready_since = time.monotonic()
        self.trained = trained
        """Whether an actor of this run has been ready before, so that the run waits for others."""

    @property
    def ready(self) -> list[ActorHandle]:
        """Those that take batches."""
        return [actor for actor in self.all if actor.starting is None]

    def resize(self, size: int) -> None:
        """Have `size` actors. Starting ones are removed first (their node may be gone), then idle
        ones."""
        if size != len(self.all):
            log.info("resizing the pool from %d to %d processes", len(self.all), size)
        for actor in sorted(self.all, key=lambda a: (a.starting is not None, not a.calls))[size:]:
            self.remove(actor)
        while len(self.all) < size:
            self._start()

    def close(self) -> None:
        """Stop all."""
        for actor in list(self.all):
            self.remove(actor)

    def replace(self, actor: ActorHandle) -> None:
        """Stop an actor and start another."""
        self.remove(actor)
        self._start()

    def remove(self, actor: ActorHandle) -> None:
        """Stop an actor."""
        self.all.remove(actor)
        actor.removed = True
        if actor.starting is None:
            self._none_ready_since = time.monotonic()  # until now one was ready
        with suppress(RayError):
            ray.kill(actor.handle)

    def answers(self, until: float | None) -> list[tuple[ActorHandle, Any]]:
        """Sleep until an answer is there, but not beyond `until`: which actor, which reference.

        Returns at once where no actor owes an answer.
        """
        refs = {ref: actor for actor in self.all for ref in actor.pending}
        if not refs:
            return []
        left_s = POLL_S if until is None else until - time.monotonic()
        timeout = min(max(left_s, 0.0), POLL_S)
        answered, pending = ray.wait(list(refs), num_returns=1, timeout=timeout)
        if len(pending) > MANY:  # looking at all costs the same for one answer and for many
            answered += ray.wait(pending, num_returns=len(pending), timeout=0)[0]
        return [(refs[ref], ref) for ref in answered]

    def mark_ready(self, actor: ActorHandle) -> None:
        """The actor has said that it is ready."""
        actor.starting, self._failed_starts, self.trained = None, 0, True

    def note_failure(self, actor: ActorHandle, error: RayError) -> None:
        """Count an actor that died before it was ready. InputError where several in a row do."""
        self._failed_starts += actor.starting is not None and not node_is_lost(error)
        if self._failed_starts >= MAX_FAILED_STARTS:
            raise InputError(f"trainer processes fail to start: {first_line(error)}") from error

    def check_some_are_ready(self) -> None:
        """InputError where no actor is ready in time at the start of a run.

        Later a run waits: a cluster that has lost all its nodes needs minutes for new ones.
        """
        now = time.monotonic()
        if self.ready:
            self._none_ready_since = now
        elif now - self._none_ready_since > START_S:
            text = f"no trainer process has started in {START_S:.0f} s: are there free CPUs?"
            if not self.trained:
                raise InputError(text)
            log.warning("%s The run waits for them.", text)
            self._none_ready_since = now

    def _start(self) -> None:
        handle = self._new()
        self.all.append(ActorHandle(handle, handle.ready.remote()))
