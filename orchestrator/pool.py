"""The trainer processes of a run, as Ray actors: what they are given, and what happens to them.

An actor works on one order at a time; a second one waits in it, so that it need not wait for the
driver. None goes to an actor that has not said it is ready. Ray restarts and retries nothing: a
dead actor is replaced here, and what it had is given to another. Training is deterministic, so
nothing of this shows in the results.
"""

import logging
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    ObjectStoreFullError,
    RayError,
    RayTaskError,
)

from divergence.errors import InputError
from divergence.rules import Rule
from orchestrator.actor import Trainer
from orchestrator.arm_round import ArmRound
from orchestrator.work import ArmResult, Order, Reply, batch_size, silence_s
from trainer.instance import Job
from trainer.kernel import Tables

log = logging.getLogger(__name__)
START_S = 180.0
"""How long the pool may be without any actor that is ready."""
SLOW_START_S = 20.0
"""How long the first cycle waits for further actors after the first one is ready."""
EXPORT_S = 60.0
LATE_EXPORT_S = 5.0
"""How long the winner's rows may take, and how long after the deadline."""
GRACE_S = 1.0
"""How long an actor may take to notice that its budget has ended."""
LOOK_S = 1.0
MOST_FAILED_STARTS = 5
MANY = 64
"""Calls under way from which on all answers that are there are taken at once."""
SHORT_S = 0.05
"""An instance so short is worth waiting for in an actor, rather than for an idle one."""


@dataclass(frozen=True)
class Terms:
    """How much trouble an instance may make."""

    tries: int
    patience_s: float


@dataclass
class _Call:
    ref: Any
    order: Order
    work_s: float
    """How long it should take once it is begun, as far as that is known."""
    limit_s: float
    """How long it may take."""
    began: float = math.inf


@dataclass(eq=False)
class _Actor:
    handle: Any
    ready: Any
    """The reference of its first answer; None once that has come."""
    given: dict[str, int] = field(default_factory=dict)
    """The cycle of which it has chunk and rows, by arm."""
    calls: list[_Call] = field(default_factory=list)
    """The order it works on, and the one that waits."""
    orders: int = 0

    @property
    def awaited(self) -> list[Any]:
        """The references of the answers it owes."""
        return [call.ref for call in self.calls] if self.ready is None else [self.ready]

    @property
    def hung_at(self) -> float:
        """When the order that it works on counts as hung."""
        return self.calls[0].began + self.calls[0].limit_s + GRACE_S if self.calls else math.inf

    @property
    def free_at(self) -> float:
        """When it should be done with all that it has."""
        if not self.calls:
            return -math.inf
        return self.calls[0].began + sum(call.work_s for call in self.calls)

    def watch(self) -> None:
        """Time runs for the order that it works on now."""
        if self.calls:
            self.calls[0].began = min(self.calls[0].began, time.monotonic())


class Pool:
    """A set of actors that outlives cycles, and of which any may die at any time."""

    def __init__(
        self,
        job: Job,
        rules: Sequence[Rule],
        size: int,
        terms: Terms,
        actor: type[Trainer] = Trainer,
    ) -> None:
        """Start `size` actors. `actor` may be a stand-in that trains otherwise."""
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 3}
        spread = {"scheduling_strategy": "SPREAD"}  # over all nodes, however few actors
        self._new = ray.remote(**options, **spread)(actor).remote  # type: ignore[call-overload]
        self._what = (job, tuple(rules))
        self._terms = terms
        self._failed_starts = 0
        self._alone_since = time.monotonic()
        self._actors: list[_Actor] = []
        self.resize(size)

    def resize(self, size: int) -> None:
        """Have so many actors, those that are starting included; these go first, then idle ones.

        One that is starting may be waiting for a node that is gone for ever.
        """
        if size != len(self._actors):
            log.info("the pool has room for %d, not %d", size, len(self._actors))
        for actor in sorted(self._actors, key=lambda a: (a.ready is not None, not a.calls))[size:]:
            self._remove(actor)
        while len(self._actors) < size:
            self._start()

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
        for actor in list(self._actors):
            self._remove(actor)

    def wait_until_up(self) -> list[int]:
        """The process ids, once all are ready; or some, where others are slow to come."""
        last = None
        while any(a.ready is not None for a in self._actors):
            self._wait([], last)
            if last is None and any(a.ready is None for a in self._actors):
                last = time.monotonic() + SLOW_START_S
            if last is not None and time.monotonic() >= last:
                break
        pids = []
        for call in [a.handle.ready.remote() for a in self._actors if a.ready is None]:
            with suppress(RayError):  # it died since: the first order to it will tell
                pids.append(ray.get(call, timeout=EXPORT_S))
        return pids

    def train(
        self,
        rounds: Sequence[ArmRound],
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
            for done in [r for r in left if not r.unfinished]:
                tables = self._fetch(done, left, LATE_EXPORT_S if late else EXPORT_S)
                if tables is not None or done.winner is None:
                    left.remove(done)
                    yield done.result(tables)
                else:
                    done.lose_winner(self._terms.tries, again=not late)
            if any(r.unfinished for r in left):
                self._wait(left, deadline)
        for deaf in [a for a in self._actors if a.calls]:
            self._replace(deaf)

    # -- orders ---------------------------------------------------------------------------------

    def _give_out(self, rounds: Sequence[ArmRound], deadline: float | None) -> None:
        """Orders for idle actors; then one more for each, those that are free first before others.

        The last of long instances are kept for who is free first indeed.
        """
        up = sorted((a for a in self._actors if a.ready is None), key=lambda a: a.free_at)
        for depth in (0, 1):
            for actor in (a for a in up if len(a.calls) == depth):
                arm = next((r for r in rounds if r.waiting), None)
                if arm is None:
                    return
                everywhere = sum(len(r.waiting) for r in rounds)
                queued = everywhere > len(up) or (arm.seconds or math.inf) < SHORT_S
                queued = queued and not _exact(actor, arm)
                if queued if depth else not (len(up) > 1 and arm.shuns(actor)):
                    count = batch_size(arm.waiting, everywhere, len(up), arm.seconds)
                    self._send(actor, arm, count, deadline)

    def _send(self, actor: _Actor, arm: ArmRound, count: int, deadline: float | None) -> None:
        now = time.monotonic()
        limit_s = silence_s(count, arm.seconds, arm.events, self._terms.patience_s)
        wait_s = max(actor.hung_at - now, 0.0) if actor.calls else 0.0
        left_s = math.inf if deadline is None else deadline - now
        budget_s = min(wait_s + limit_s, left_s)
        order = arm.take(count, budget_s, actor.orders)
        actor.orders += 1
        parts = (arm.chunk, arm.start) if actor.given.get(arm.name) != arm.cycle else ()
        work_s = count * (arm.seconds or 0.0)
        ref = actor.handle.train.remote(order, *parts)
        actor.calls.append(_Call(ref, order, work_s, limit_s))
        actor.watch()

    def _end_calls(self, rounds: Sequence[ArmRound]) -> None:
        """The deadline is there: hear what actors still have to say.

        One that says nothing is ended later: it may hold the winner.
        """
        for arm in rounds:
            arm.close()
        last = time.monotonic() + GRACE_S
        while any(a.calls for a in self._actors) and time.monotonic() < last:
            self._wait(rounds, last)
        for arm in rounds:
            arm.end()

    def _fetch(self, arm: ArmRound, rounds: Sequence[ArmRound], timeout_s: float) -> Tables | None:
        """The winner's rows; None where there is no winner, or they are gone."""
        holder = next((a for a in self._actors if a is arm.holder()), None)
        if holder is None:
            return None
        try:
            call = holder.handle.export.remote(arm.cycle, arm.name, arm.winner)
            tables: Tables = ray.get(call, timeout=timeout_s)
        except RayTaskError:  # it lives, and does not hold it
            return None
        except RayError as error:
            self._lose(holder, error, {r.name: r for r in rounds})
            return None
        return tables

    # -- answers --------------------------------------------------------------------------------

    def _wait(self, rounds: Sequence[ArmRound], until: float | None) -> None:
        """Sleep until something happens, but not beyond `until`, and take it in."""
        refs = {ref: actor for actor in self._actors for ref in actor.awaited}
        if not refs:
            return  # all are ready and wait for orders
        left_s = LOOK_S if until is None else until - time.monotonic()
        timeout = min(max(left_s, 0.0), LOOK_S)
        answered, owed = ray.wait(list(refs), num_returns=1, timeout=timeout)
        if len(owed) > MANY:  # a look at all costs the same for one answer and for many
            answered += ray.wait(owed, num_returns=len(owed), timeout=0)[0]
        by_name = {arm.name: arm for arm in rounds}
        for ref in answered:
            self._hear(refs[ref], ref, by_name)
        self._look_after(by_name)

    def _hear(self, actor: _Actor, ref: Any, rounds: Mapping[str, ArmRound]) -> None:
        try:
            answer: Reply | int = ray.get(ref, timeout=EXPORT_S)
        except RayError as error:
            self._failed_starts += actor.ready is not None and not _node_is_lost(error)
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise InputError(f"no trainer process starts: {_told(error)}") from error
            self._lose(actor, error, rounds)
            return
        if isinstance(answer, Reply):
            call = next(call for call in actor.calls if call.ref == ref)
            actor.calls.remove(call)
            actor.watch()
            arm = rounds.get(call.order.arm)
            if arm is not None:  # else its result is out already
                actor.given[arm.name] = arm.cycle
                arm.take_in(call.order, answer, actor, self._terms.tries)
        else:
            actor.ready, self._failed_starts = None, 0

    def _look_after(self, rounds: Mapping[str, ArmRound]) -> None:
        now = time.monotonic()
        for actor in [a for a in self._actors if a.hung_at < now]:
            self._lose(actor, None, rounds)
        if any(a.ready is None for a in self._actors):
            self._alone_since = now
        elif now - self._alone_since > START_S:
            raise InputError(
                f"no trainer process has started in {START_S:.0f} s: are there free CPUs?"
            )

    def _lose(self, actor: _Actor, error: RayError | None, rounds: Mapping[str, ArmRound]) -> None:
        """Replace an actor; no `error`: it hung. The order it worked on is lost.

        The one that waited was not begun, and what goes with a node is no instance's fault.
        """
        reason = "its process hung" if error is None else _told(error)
        log.info("a trainer process is lost and replaced: %s", reason)
        for i, call in enumerate(actor.calls):
            arm = rounds.get(call.order.arm)
            if arm is None:  # its result is out already
                continue
            if i == 0 and not (error and _node_is_lost(error)):
                arm.lose(call.order, reason, self._terms.tries)
            else:
                arm.put_back(call.order)
        self._replace(actor)

    # -- actors ---------------------------------------------------------------------------------

    def _start(self) -> None:
        handle = self._new(*self._what)
        self._actors.append(_Actor(handle, handle.ready.remote()))

    def _replace(self, actor: _Actor) -> None:
        self._remove(actor)
        self._start()

    def _remove(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        with suppress(RayError):
            ray.kill(actor.handle)


def _exact(actor: _Actor, arm: ArmRound) -> bool:
    """Whether the actor's order, or the arm's next, must be alone for blame to be exact."""
    return arm.waiting[0].alone or any(t.alone for call in actor.calls for t in call.order.tasks)


def _node_is_lost(error: RayError) -> bool:
    """Whether the actor went with its node, or can no longer be reached."""
    return isinstance(error, ActorUnavailableError) or "node has died" in str(error)


def _told(error: Exception) -> str:
    """What Ray says in one line: the first, or of an error in an actor's creation the last."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [""]
    line = lines[-1] if "creation task" in lines[0] else lines[0]
    return f"{type(error).__name__}: {line.strip()}"
