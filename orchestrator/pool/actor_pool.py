"""What the pools on Ray have in common: their actors, shared data, and waiting for answers."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import ray
from ray.exceptions import ObjectStoreFullError, RayError

from divergence.errors import InputError
from divergence.rules import Rule
from orchestrator.pool.actors import ActorSet, actor_class
from orchestrator.pool.handle import GRACE_S, ActorHandle, Call
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.ray_errors import first_line, node_is_lost
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.protocol import Trainer

log = logging.getLogger(__name__)
Progress = TypeVar("Progress", bound=ArmProgress)
Result = TypeVar("Result")
SLOW_START_S = 20.0
"""How long the first cycle waits for further actors after the first one is ready."""
ANSWER_S = 60.0
"""How long a trainer may take to answer, for the winner's rows as for anything else."""
LATE_ROWS_S = 5.0
"""How long the winner's rows may take after the deadline."""
HUNG = "its process hung"


class ActorPool(ABC, Generic[Progress, Result]):
    """A set of actors that outlives cycles. Any of them may die at any time."""

    THREADS = 1
    """How many calls an actor works on at a time."""
    GRACE_S = GRACE_S
    """How long actors may take to report what they have at the deadline."""

    def __init__(
        self,
        job: Trainer,
        rules: Sequence[Rule],
        size: Callable[[], int],
        policy: RetryPolicy,
        trainer: type[TrainerActor] = TrainerActor,
    ) -> None:
        """Start actors of this class. `size` says before each cycle how many there should be."""
        new = actor_class(trainer, 1, self.THREADS).remote
        self._actors = ActorSet(lambda: new(job, tuple(rules)))
        self._size, self._policy = size, policy
        self._deadline: float | None = None
        self._arms: list[Progress] = []
        """The arms of this cycle whose results are not out yet."""
        self._resize()

    def start(self, arms: Sequence[Progress], deadline: float | None = None) -> None:
        """Adapt the pool to the cluster and dispatch the first batches."""
        self._resize()
        self._arms = list(arms)
        self._deadline = deadline
        self._dispatch()

    def results(self) -> Iterator[Result]:
        """Each arm's result, as soon as everything in it has an outcome."""
        late = False
        while self._arms:
            if not late and self._deadline is not None and time.monotonic() >= self._deadline:
                late = True
                self._stop_at_deadline()
            elif not late:
                self._dispatch()
            for done in [arm for arm in self._arms if not arm.unfinished]:
                result = self._result(done, late)
                if result is not None:
                    self._arms.remove(done)
                    yield result
            if any(arm.unfinished for arm in self._arms):
                self._wait(self._deadline)
        for busy in [actor for actor in self._actors.all if actor.calls]:
            self._actors.replace(busy)  # it did not stop at the deadline

    def share(self, value: Any) -> Any:
        """Put a value where actors read it, sent once to each node; gone with its reference."""
        try:
            return ray.put(value)
        except ObjectStoreFullError as error:
            raise InputError(
                "Ray's object store on the driver's node has no room for a chunk and its working "
                "set: give it more (ray start --object-store-memory), or cut shorter chunks"
            ) from error

    def close(self) -> None:
        """Stop all actors."""
        self._actors.close()

    def wait_until_ready(self) -> None:
        """Return once all actors are ready, or only some where others are slow to start."""
        last = None
        while len(self._actors.ready) < len(self._actors.all):
            self._wait(last)
            if last is None and self._actors.ready:
                last = time.monotonic() + SLOW_START_S
            if last is not None and time.monotonic() >= last:
                break

    def process_ids(self) -> list[int]:
        """The process ids of the trainers that are ready."""
        pids: list[int] = []
        for actor in self._actors.ready:
            handle = actor.handle
            call = handle.ready if actor.cores is None else handle.process_ids
            with suppress(RayError):  # it died since then: the next batch will show it
                answer = ray.get(call.remote(), timeout=ANSWER_S)
                pids += [answer] if isinstance(answer, int) else answer
        return pids

    def _wait(self, until: float | None) -> None:
        """Sleep until something happens, but not beyond `until`, and process it."""
        for actor, ref in self._actors.answers(until):
            if not actor.removed:  # because of another of these answers
                self._receive(actor, ref)
        now = time.monotonic()
        for hung in [actor for actor in self._actors.all if actor.hung_at < now]:
            self._lose(hung, HUNG)
        self._actors.check_some_are_ready()

    def _receive(self, actor: ActorHandle, ref: Any) -> None:
        try:
            answer = ray.get(ref, timeout=ANSWER_S)
        except RayError as error:
            self._actors.note_failure(actor, error)
            self._lose(actor, error)
            return
        if actor.starting is not None:
            self._welcome(actor, answer)
        else:
            call = actor.answered(ref)
            if call.arm in self._arms:  # else its result is out already
                self._record(actor, call, answer)

    def _stop_at_deadline(self) -> None:
        """Dispatch nothing more, and give actors a moment to report what they have.

        An actor that stays silent is replaced later: it may hold the winner.
        """
        for arm in self._arms:
            arm.close()
        last = time.monotonic() + self.GRACE_S
        while any(actor.calls for actor in self._actors.all) and time.monotonic() < last:
            self._wait(last)
        for arm in self._arms:
            arm.mark_late()

    def _lose(self, actor: ActorHandle, why: RayError | str) -> None:
        """Replace an actor. The batch it worked on is lost, and all shares of a dispatcher.

        Batches in a trainer's queue were not started. No instance is blamed for a lost node.
        """
        reason = why if isinstance(why, str) else first_line(why)
        trains = actor.cores is None
        self._report_loss("trainer process" if trains else "dispatcher", reason)
        blamed = isinstance(why, str) or not node_is_lost(why)
        for i, call in enumerate(actor.calls):
            if call.arm not in self._arms:  # its result is out already
                continue
            if blamed and not trains:
                call.arm.lose_share(call.batch, reason, self._policy.tries)
            elif blamed and i == 0:
                call.arm.lose(call.batch, reason, self._policy.tries)
            else:
                call.arm.put_back(call.batch)
        self._actors.replace(actor)

    def _report_loss(self, who: str, reason: str) -> None:
        log.info("a %s is lost and replaced: %s", who, reason)

    def _resize(self) -> None:
        """Have as many actors as there should be."""
        self._actors.resize(self._size())

    def _welcome(self, actor: ActorHandle, answer: Any) -> None:
        """An actor has said that it is ready."""
        self._actors.mark_ready(actor)

    @abstractmethod
    def _dispatch(self) -> None:
        """Give actors what there is for them now."""

    @abstractmethod
    def _result(self, arm: Progress, late: bool) -> Result | None:
        """The result of an arm without unfinished work; None if part of it was lost since."""

    def _record(self, actor: ActorHandle, call: Call, reply: Any) -> None:
        """Record what an actor has answered."""
        for reason in reply.lost:
            self._report_loss("trainer process", reason)
        actor.given[call.arm.name], actor.cores = call.arm.cycle, reply.cores
        call.arm.record(call.batch, reply, actor, self._policy.tries)
