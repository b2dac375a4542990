"""The trainer processes of a run, as Ray actors: what they are given, and what happens to them.

An actor works on one order at a time; a second one waits in it, so that it need not wait for the
driver. None goes to an actor that has not said it is ready. Ray restarts and retries nothing: a
dead actor is replaced here, and what it had is given to another. Training is deterministic, so
nothing of this shows in the results.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import ObjectStoreFullError, RayError, RayTaskError

from divergence.errors import InputError
from divergence.rules import Rule
from orchestrator.pool.actors import ActorSet
from orchestrator.pool.dispatch import dispatch
from orchestrator.pool.handle import GRACE_S, ActorHandle
from orchestrator.pool.messages import ArmResult, BatchReply
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.ray_errors import node_is_lost, told
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.instance import Job
from trainer.kernel import Tables

log = logging.getLogger(__name__)
SLOW_START_S = 20.0
"""How long the first cycle waits for further actors after the first one is ready."""
EXPORT_S = 60.0
LATE_EXPORT_S = 5.0
"""How long the winner's rows may take, and how long after the deadline."""


@dataclass(frozen=True)
class RetryPolicy:
    """How much trouble an instance may make."""

    tries: int
    patience_s: float


class Pool:
    """A set of actors that outlives cycles, and of which any may die at any time."""

    def __init__(
        self,
        job: Job,
        rules: Sequence[Rule],
        size: int,
        terms: RetryPolicy,
        actor: type[TrainerActor] = TrainerActor,
    ) -> None:
        """Start `size` actors. `actor` may be a stand-in that trains otherwise."""
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 3}
        spread = {"scheduling_strategy": "SPREAD"}  # over all nodes, however few actors
        new = ray.remote(**options, **spread)(actor).remote  # type: ignore[call-overload]
        self._actors = ActorSet(lambda: new(job, tuple(rules)))
        self._terms = terms
        self._actors.resize(size)

    def resize(self, size: int) -> None:
        """Have so many actors from now on."""
        self._actors.resize(size)

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
        """End all actors."""
        self._actors.close()

    def wait_until_up(self) -> list[int]:
        """The process ids, once all are ready; or some, where others are slow to come."""
        last = None
        while len(self._actors.up) < len(self._actors.actors):
            self._wait([], last)
            if last is None and self._actors.up:
                last = time.monotonic() + SLOW_START_S
            if last is not None and time.monotonic() >= last:
                break
        pids = []
        for call in [actor.handle.ready.remote() for actor in self._actors.up]:
            with suppress(RayError):  # it died since: the first order to it will tell
                pids.append(ray.get(call, timeout=EXPORT_S))
        return pids

    def train(
        self,
        rounds: Sequence[ArmProgress],
        deadline: float | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Iterator[ArmResult]:
        """Train every arm's round of a cycle; each arm's result comes as soon as it is whole.

        `deadline` is a time of the monotonic clock: what is not finished by then is late.
        `meanwhile` is called once, when the first orders are out.
        """
        left, late = list(rounds), False
        self._give_out(left, deadline)
        meanwhile()
        while left:
            if not late and deadline is not None and time.monotonic() >= deadline:
                late = True
                self._end_calls(left)
            elif not late:
                self._give_out(left, deadline)
                for arm in (r for r in left if r.nearly_done):
                    self._ask(arm)
            for done in [r for r in left if not r.unfinished]:
                tables = self._fetch(done, left, LATE_EXPORT_S if late else EXPORT_S)
                if tables is not None or done.winner is None:
                    left.remove(done)
                    yield done.result(tables)
                else:
                    done.lose_winner(self._terms.tries, again=not late)
            if any(r.unfinished for r in left):
                self._wait(left, deadline)
        for deaf in [actor for actor in self._actors.actors if actor.calls]:
            self._actors.replace(deaf)

    def _give_out(self, rounds: Sequence[ArmProgress], deadline: float | None) -> None:
        dispatch(self._actors.up, rounds, deadline, self._terms.patience_s)

    def _end_calls(self, rounds: Sequence[ArmProgress]) -> None:
        """The deadline is there: hear what actors still have to say.

        One that says nothing is ended later: it may hold the winner.
        """
        for arm in rounds:
            arm.close()
        last = time.monotonic() + GRACE_S
        while any(a.calls for a in self._actors.actors) and time.monotonic() < last:
            self._wait(rounds, last)
        for arm in rounds:
            arm.end()

    def _ask(self, arm: ArmProgress) -> ActorHandle | None:
        """Ask for the rows of who leads, unless that is done; gives who has them."""
        leader, who = arm.winner, arm.holder()
        holder = next((actor for actor in self._actors.actors if actor is who), None)
        if leader is not None and holder and (arm.asked is None or arm.asked[0] != leader):
            arm.asked = leader, holder.handle.export.remote(arm.cycle, arm.name, leader)
        return holder

    def _fetch(
        self, arm: ArmProgress, rounds: Sequence[ArmProgress], timeout_s: float
    ) -> Tables | None:
        """The winner's rows; None where there is no winner, or they are gone."""
        holder = self._ask(arm)
        if holder is None or arm.asked is None:
            return None
        try:
            tables: Tables | None = ray.get(arm.asked[1], timeout=timeout_s)
        except RayTaskError:  # it lives, and cannot give them
            return None
        except RayError as error:
            self._lose(holder, error, {r.name: r for r in rounds})
            return None
        return tables

    # -- answers --------------------------------------------------------------------------------

    def _wait(self, rounds: Sequence[ArmProgress], until: float | None) -> None:
        """Sleep until something happens, but not beyond `until`, and take it in."""
        by_name = {arm.name: arm for arm in rounds}
        for actor, ref in self._actors.answers(until):
            if not actor.gone:  # by another of these answers
                self._hear(actor, ref, by_name)
        now = time.monotonic()
        for hung in [actor for actor in self._actors.actors if actor.hung_at < now]:
            self._lose(hung, None, by_name)
        self._actors.must_not_be_alone()

    def _hear(self, actor: ActorHandle, ref: Any, rounds: Mapping[str, ArmProgress]) -> None:
        try:
            answer: BatchReply | int = ray.get(ref, timeout=EXPORT_S)
        except RayError as error:
            self._actors.note_failure(actor, error)
            self._lose(actor, error, rounds)
            return
        if not isinstance(answer, BatchReply):
            self._actors.is_up(actor)
            return
        order = actor.answered(ref)
        arm = rounds.get(order.arm)
        if arm is not None:  # else its result is out already
            actor.given[arm.name] = arm.cycle
            arm.take_in(order, answer, actor, self._terms.tries)

    def _lose(
        self, actor: ActorHandle, error: RayError | None, rounds: Mapping[str, ArmProgress]
    ) -> None:
        """Replace an actor; no `error`: it hung. The order it worked on is lost.

        The one that waited was not begun, and what goes with a node is no instance's fault.
        """
        reason = "its process hung" if error is None else told(error)
        log.info("a trainer process is lost and replaced: %s", reason)
        for i, call in enumerate(actor.calls):
            arm = rounds.get(call.order.arm)
            if arm is None:  # its result is out already
                continue
            if i == 0 and not (error and node_is_lost(error)):
                arm.lose(call.order, reason, self._terms.tries)
            else:
                arm.put_back(call.order)
        self._actors.replace(actor)
