"""The story of a cycle: chunk, plan, training, selection, commit."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from orchestrator.config.schema import AdaptiveSampler, RunConfig, StartFrom
from orchestrator.journal.record import CycleRecord
from orchestrator.loop.arm_state import ArmState, Plan
from orchestrator.loop.committer import Committer, PendingCommit
from orchestrator.loop.prefetch import Prefetcher, PreparedChunk
from orchestrator.pool.handle import GRACE_S
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.protocol import Pool
from orchestrator.search.sampler import SearchState, cycle_rng, draw_quantiles

RESERVED_SHARE = 0.05
"""The share of a deadline that is kept free for the commit, at least."""
RESERVED_COMMITS = 2.0
"""The same, as a multiple of what the last commit took."""


@dataclass(frozen=True)
class Loop:
    """What all cycles of a run share."""

    config: RunConfig
    arms: Mapping[str, ArmState]
    pool: Pool
    prefetcher: Prefetcher
    committer: Committer
    config_hash: str
    driver: str
    """Tells this process from any other that might write to the run."""


def run_cycle(loop: Loop, cycle: int) -> bool:
    """Train one cycle and hand it over to the committer; False where there are no more chunks.

    Committer and prefetcher work in threads of their own, and start once the actors are busy: no
    actor waits for the driver.
    """
    if not loop.prefetcher.is_ready(cycle):
        loop.committer.finish()  # there is time for it: nothing to train on yet
    prepared = loop.prefetcher.take(cycle)
    if prepared is None:
        return False
    clock = _Clock(prepared.seconds)
    arms = _arms_in(loop, cycle)
    plans = _plan(loop, arms, prepared)
    training = [loop.arms[name].progress(plan, loop.pool.share) for name, plan in plans.items()]
    clock.planned()

    loop.pool.start(training, _training_deadline(loop, clock.began))
    loop.committer.start()  # the cycle before this one
    loop.prefetcher.start(cycle + 1, partial(_draft, loop, plans))

    results, changes = {}, {}
    for result in loop.pool.results():  # an arm's outcomes, its winner and the winner's rows
        clock.trained()
        loop.committer.wait()  # it reads the models, and they change now
        results[result.arm] = result
        changes[result.arm] = loop.arms[result.arm].adopt(plans[result.arm], result)

    clock.adopted()
    pending, used = [], (prepared, plans, training, results)
    for arm in arms:
        record = _record(loop, prepared, clock, arm, plans.get(arm.name), results.get(arm.name))
        pending.append(PendingCommit(arm, record, changes.get(arm.name), arm.snapshots, used))
    loop.committer.hand_over(pending)
    return True


class _Clock:
    """When a cycle began, and the seconds that its stages took."""

    def __init__(self, feed_s: float) -> None:
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.began = self._planned = self._trained = self._adopted = time.monotonic()
        self._feed_s = feed_s

    def planned(self) -> None:
        """Actors can start."""
        self._planned = self._trained = time.monotonic()

    def trained(self) -> None:
        """An arm is trained; the last one counts."""
        self._trained = time.monotonic()

    def adopted(self) -> None:
        """The winners are the new champions."""
        self._adopted = time.monotonic()

    def timings(self) -> dict[str, float]:
        """Seconds by stage, by the names of the journal."""
        stages = {
            "feed": self._feed_s,
            "plan": self._planned - self.began,
            "train": self._trained - self._planned,
            "crown": self._adopted - self._trained,
            "cycle": self._adopted - self.began,
        }
        return {name: round(seconds, 6) for name, seconds in stages.items()}


def _training_deadline(loop: Loop, began: float) -> float | None:
    """When training must end, so that the champion is in the journal at the deadline."""
    budget_s = loop.config.deadline_s
    if budget_s is None:
        return None
    commit_s = max(RESERVED_SHARE * budget_s, RESERVED_COMMITS * loop.committer.seconds)
    return began + max(budget_s - GRACE_S - commit_s, budget_s / 2)


def _arms_in(loop: Loop, cycle: int) -> list[ArmState]:
    """The arms that take part in a cycle. One that starts from another gets its champion now."""
    arms = [arm for arm in loop.arms.values() if arm.config.first_cycle <= cycle]
    for arm in arms:
        start = arm.config.start_from
        if isinstance(start, StartFrom) and start.cycle == cycle:
            arm.start_from(loop.arms[start.arm])
    return arms


def _plan(loop: Loop, arms: Sequence[ArmState], prepared: PreparedChunk) -> dict[str, Plan]:
    """Each arm's plan by its name, all from the same draws; none where there are no events."""
    if prepared.chunk is None:
        return {}
    draws = draw_quantiles(loop.config, prepared.cycle, cycle_rng(loop.config.seed, prepared.cycle))
    leader = _leader(loop)
    return {arm.name: arm.plan(prepared, draws, leader) for arm in arms}


def _draft(loop: Loop, plans: Mapping[str, Plan], then: PreparedChunk) -> None:
    """Gather for the next cycle, as far as that does not depend on who wins this one."""
    for name, plan in plans.items():
        loop.arms[name].draft_next(plan, then, loop.pool.share)


def _leader(loop: Loop) -> SearchState | None:
    sampler = loop.config.search.sampler
    follow = sampler.follow if isinstance(sampler, AdaptiveSampler) else None
    return None if follow is None else loop.arms[follow].search


def _record(
    loop: Loop,
    prepared: PreparedChunk,
    clock: _Clock,
    arm: ArmState,
    plan: Plan | None,
    result: ArmResult | None,
) -> CycleRecord:
    """An arm's record, except the champion's files and norms, which the commit adds."""
    if result is None:
        arm.without_events()
    return CycleRecord(
        driver=loop.driver,
        config_hash=loop.config_hash,
        seed=loop.config.seed,
        arm=arm.name,
        cycle=prepared.cycle,
        started=clock.started,
        chunk=prepared.info,
        outcomes=result.outcomes if result else (),
        winner=result.winner if result else None,
        model=(),
        served_logloss=result.served if result else None,
        norms=None,
        caution=plan.caution if plan else arm.search.caution,
        search=arm.search,
        timings=clock.timings(),
        lineages=arm.lineages,
    )
