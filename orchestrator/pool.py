"""The trainer processes of a run, as Ray actors: what they are given, and what happens to them.

One call at a time in each actor, and none to an actor that has not said it is ready. Ray restarts
and retries nothing: a dead actor is replaced here, and what it had is given to another. Training
is deterministic, so nothing of this shows in the results.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError

from divergence.errors import InputError
from divergence.rules import Rule
from orchestrator.actor import Trainer
from orchestrator.arm_round import ArmRound
from orchestrator.work import ArmResult, Order, Reply, batch_size, silence_s
from trainer.instance import Job
from trainer.kernel import Tables

START_S = 180.0
"""How long the pool may be without any actor that is ready."""
SLOW_START_S = 20.0
"""How long the first cycle waits for further actors after the first one is ready."""
EXPORT_S = 60.0
GRACE_S = 0.5
"""How long an actor may take to notice that its budget has ended."""
LOOK_S = 1.0
MOST_FAILED_STARTS = 5


@dataclass(frozen=True)
class Terms:
    """How much trouble an instance may make, and by when a cycle must be over (monotonic)."""

    tries: int
    patience_s: float


@dataclass
class _Call:
    ref: Any
    order: Order
    hung_at: float


@dataclass(eq=False)
class _Actor:
    handle: Any
    ready: Any
    """The reference of its first answer; None once that has come."""
    given: dict[str, int] = field(default_factory=dict)
    """The cycle of which it has chunk and rows, by arm."""
    call: _Call | None = None

    @property
    def awaited(self) -> Any:
        """The reference of its next answer; None where it owes none."""
        return self.ready if self.call is None else self.call.ref

    @property
    def idle(self) -> bool:
        """Whether it is ready and without a call."""
        return self.awaited is None


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
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": 2}
        self._new = ray.remote(**options)(actor).remote  # type: ignore[call-overload]
        self._what = (job, tuple(rules))
        self._terms = terms
        self._failed_starts = 0
        self._alone_since = time.monotonic()
        self._actors: list[_Actor] = []
        self.resize(size)

    def resize(self, size: int) -> None:
        """Have so many actors, those that are starting included; idle ones go first."""
        for actor in sorted(self._actors, key=lambda a: a.call is not None)[size:]:
            self._remove(actor)
        while len(self._actors) < size:
            self._start()

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
        up = [a.handle for a in self._actors if a.ready is None]
        return [ray.get(actor.ready.remote(), timeout=EXPORT_S) for actor in up]

    def train(self, rounds: Sequence[ArmRound], deadline: float | None) -> Iterator[ArmResult]:
        """Train every arm's round of a cycle; each arm's result comes as soon as it is whole.

        `deadline` is a time of the monotonic clock: what is not finished by then is late.
        """
        left = list(rounds)
        while left:
            late = deadline is not None and time.monotonic() >= deadline
            if late:
                self._end_calls(left)
            else:
                self._give_out(left, deadline)
            for done in [r for r in left if not r.unfinished]:
                tables = self._fetch(done)
                if tables is not None or done.winner is None:
                    left.remove(done)
                    yield done.result(tables)
                else:
                    done.lose_winner(self._terms.tries, again=not late)
            if any(r.unfinished for r in left):
                self._wait(left, deadline)

    # -- orders ---------------------------------------------------------------------------------

    def _give_out(self, rounds: Sequence[ArmRound], deadline: float | None) -> None:
        up = sum(a.ready is None for a in self._actors)
        for actor in self._actors:
            waiting = next((r for r in rounds if r.waiting), None)
            if waiting is None:
                return
            if actor.idle and not (up > 1 and waiting.shuns(actor)):
                everywhere = sum(len(r.waiting) for r in rounds)
                count = batch_size(waiting.waiting, everywhere, up, waiting.seconds)
                self._send(actor, waiting, count, deadline)

    def _send(self, actor: _Actor, arm: ArmRound, count: int, deadline: float | None) -> None:
        now = time.monotonic()
        limit_s = silence_s(count, arm.seconds, arm.events, self._terms.patience_s)
        budget_s = limit_s if deadline is None else min(limit_s, deadline - now)
        order = arm.take(count, budget_s)
        first = actor.given.get(arm.name) != arm.cycle
        parts = (arm.chunk, arm.start) if first else ()
        actor.given[arm.name] = arm.cycle
        call = actor.handle.train.remote(order, *parts)
        actor.call = _Call(call, order, now + budget_s + max(GRACE_S, limit_s - budget_s))

    def _end_calls(self, rounds: Sequence[ArmRound]) -> None:
        """The deadline is there: hear what actors still have to say, end those that do not."""
        for arm in rounds:
            arm.close()
        last = time.monotonic() + GRACE_S
        while any(a.call for a in self._actors) and time.monotonic() < last:
            self._wait(rounds, last)
        for actor in [a for a in self._actors if a.call]:
            self._replace(actor)
        for arm in rounds:
            arm.end()

    def _fetch(self, arm: ArmRound) -> Tables | None:
        holder = arm.holder()
        if not isinstance(holder, _Actor) or holder not in self._actors:
            return None
        call = holder.handle.export.remote(arm.cycle, arm.name, arm.winner)
        with suppress(RayError, GetTimeoutError):
            tables: Tables = ray.get(call, timeout=EXPORT_S)
            return tables
        return None

    # -- answers --------------------------------------------------------------------------------

    def _wait(self, rounds: Sequence[ArmRound], until: float | None) -> None:
        """Sleep until something happens, but not beyond `until`, and take it in."""
        now = time.monotonic()
        refs = {a.awaited: a for a in self._actors if not a.idle}
        if not refs and not any(a.ready is None for a in self._actors):
            raise InputError("there is no trainer process left, and none is starting")
        timeout = LOOK_S if until is None else min(max(until - now, 0.0), LOOK_S)
        answered, _ = ray.wait(list(refs), num_returns=1, timeout=timeout) if refs else ([], [])
        for ref in answered:
            self._hear(refs[ref], {r.name: r for r in rounds})
        self._look_after(rounds)

    def _hear(self, actor: _Actor, rounds: dict[str, ArmRound]) -> None:
        ref, call, actor.call = actor.awaited, actor.call, None
        try:
            answer: Reply | int = ray.get(ref, timeout=EXPORT_S)
        except (RayError, GetTimeoutError) as error:
            if call is None:
                self._failed_starts += 1
                if self._failed_starts >= MOST_FAILED_STARTS:
                    raise InputError(f"no trainer process starts: {_told(error)}") from error
            elif call.order.arm in rounds:
                rounds[call.order.arm].lose(call.order, _told(error), self._terms.tries)
            self._replace(actor)
            return
        if isinstance(answer, Reply):
            if call is not None and call.order.arm in rounds:
                rounds[call.order.arm].take_in(call.order, answer, actor, self._terms.tries)
        else:
            actor.ready, self._failed_starts = None, 0

    def _look_after(self, rounds: Sequence[ArmRound]) -> None:
        now = time.monotonic()
        for actor in [a for a in self._actors if a.call and a.call.hung_at < now]:
            order = actor.call.order if actor.call else None
            for arm in rounds:
                if order is not None and arm.name == order.arm:
                    arm.lose(order, "its process hung", self._terms.tries)
            self._replace(actor)
        if any(a.ready is None for a in self._actors):
            self._alone_since = now
        elif now - self._alone_since > START_S:
            raise InputError(
                f"no trainer process has started in {START_S:.0f} s: are there free CPUs?"
            )

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


def _told(error: Exception) -> str:
    """The first line of what Ray says, without its report."""
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
