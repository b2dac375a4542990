"""The trainer processes of a run, as Ray actors: what they are given, and what happens to them.

An actor works on one batch at a time; a second one waits in its queue, so that the actor never
waits for the driver. No batch goes to an actor that has not said it is ready. Ray restarts and
retries nothing: the pool replaces a dead actor and gives its batches to others. Training is
deterministic, so none of this shows in the results.

With more than DIRECT cores the actors are dispatchers, each with trainers of its own: the driver
would take longer to call thousands of trainers than they take to train.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from divergence.rules import Rule
from orchestrator.pool.actor_pool import ANSWER_S, LATE_ROWS_S, ActorPool
from orchestrator.pool.actors import ActorSet, actor_class
from orchestrator.pool.dispatch import dispatch
from orchestrator.pool.dispatcher import CALLS, Dispatcher
from orchestrator.pool.handle import ActorHandle
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.ray_errors import first_line
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.shares import dispatch_shares
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.protocol import Trainer

DIRECT = 64
"""The most trainers that one process dispatches to. A call costs it 0.1 to 0.2 ms."""


class RayPool(ActorPool[ArmProgress, ArmResult]):
    """Trains instances in batches, on whichever actor is free."""

    THREADS = 3

    def __init__(
        self,
        job: Trainer,
        rules: Sequence[Rule],
        size: Callable[[], int],
        policy: RetryPolicy,
        trainer: type[TrainerActor] = TrainerActor,
    ) -> None:
        """Start actors of this class. `size` says before each cycle how many there should be."""
        self._trains = job, tuple(rules), policy, trainer
        self._groups: tuple[int, ...] = ()
        """How many trainers each dispatcher should have, where there are dispatchers."""
        self._sizes_sent: list[tuple[ActorHandle, int]] = []
        super().__init__(job, rules, size, policy, trainer)

    def _resize(self) -> None:
        """Have as many trainers as there should be, and dispatchers from the time they are many."""
        cores = self._size()
        if not self._groups and cores <= DIRECT:
            self._actors.resize(cores)
            return
        if not self._groups:
            self._actors.close()
            self._actors = ActorSet(self._new_dispatcher, self._actors.trained)
        self._groups = groups(cores)
        self._actors.resize(len(self._groups))
        sizes = list(zip(self._actors.all, self._groups, strict=True))
        if sizes != self._sizes_sent:
            self._sizes_sent = sizes
            for actor, size in sizes:
                actor.handle.resize.remote(size)

    def _new_dispatcher(self) -> Any:
        job, rules, policy, trainer = self._trains
        cores = self._groups[len(self._actors.all)]
        return actor_class(Dispatcher, 0, CALLS).remote(job, rules, cores, policy, trainer)

    def _welcome(self, actor: ActorHandle, answer: Any) -> None:
        super()._welcome(actor, answer)
        actor.cores = answer if self._groups else None

    def _dispatch(self) -> None:
        if self._groups:
            dispatch_shares(self._actors.ready, self._arms, self._deadline, self._policy)
        else:
            patience_s = self._policy.patience_s
            dispatch(self._actors.ready, self._arms, self._deadline, patience_s)
        for arm in self._arms:
            if arm.nearly_done:
                self._request_rows(arm)

    def _result(self, arm: ArmProgress, late: bool) -> ArmResult | None:
        tables = self._winner_rows(arm, LATE_ROWS_S if late else ANSWER_S)
        if tables is not None and arm.request is not None and not self._groups:
            return arm.result(tables, shared=arm.request[1])
        if tables is not None or arm.winner is None:
            return arm.result(tables)  # a dispatcher's reference ends with the dispatcher
        arm.lose_winner(self._policy.tries, again=not late)
        return None

    def _request_rows(self, arm: ArmProgress) -> ActorHandle | None:
        """Request the leader's rows unless that is done already; gives the actor that has them."""
        leader, who = arm.winner, arm.holder()
        holder = next((actor for actor in self._actors.all if actor is who), None)
        if leader is not None and holder and (arm.request is None or arm.request[0] != leader):
            arm.request = leader, holder.handle.export.remote(arm.cycle, arm.name, leader)
        return holder

    def _winner_rows(self, arm: ArmProgress, timeout_s: float) -> Any:
        """The winner's rows; None where there is no winner, or its rows are lost."""
        holder = self._request_rows(arm)
        if holder is None or arm.request is None:
            return None
        try:
            answer: Any = ray.get(arm.request[1], timeout=timeout_s)
        except RayTaskError:  # the actor is alive, but does not have them
            return None
        except RayError as error:
            self._lose(holder, error)
            return None
        return self._rows_from(holder, arm, answer, timeout_s) if self._groups else answer

    def _rows_from(
        self, dispatcher: ActorHandle, arm: ArmProgress, answer: list[Any] | None, timeout_s: float
    ) -> Any:
        """The rows whose reference a dispatcher has given; None where their trainer is lost."""
        if answer is None:
            return None
        try:
            rows: Any = ray.get(answer[0], timeout=timeout_s)
        except RayError as error:
            lose = dispatcher.handle.lose_holder.remote
            with suppress(RayError):  # it is lost, too: the next share will show it
                done = lose(arm.cycle, arm.name, arm.winner, first_line(error))
                ray.get(done, timeout=timeout_s)
            return None
        return rows


def groups(cores: int) -> tuple[int, ...]:
    """How many trainers each dispatcher has, the larger ones first.

    As many as there are dispatchers, so that the driver takes as long to call these as they take
    to call their trainers; but no more than DIRECT.
    """
    number = max(math.isqrt(cores), math.ceil(cores / DIRECT))
    return tuple(cores // number + (i < cores % number) for i in range(number))
