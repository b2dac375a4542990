"""The story of a cycle: chunk, working sets, instances, outcomes, champions, commit."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from orchestrator.config.schema import AdaptiveSampler, RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.loop.arm_state import ArmState, Plan, begin_from
from orchestrator.loop.committer import Committer, PendingCommit
from orchestrator.loop.prefetch import PreparedChunk
from orchestrator.pool.handle import GRACE_S
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.pool import Pool
from orchestrator.pool.progress import ArmProgress
from orchestrator.search.sampler import SearchState, draw, generator

RESERVE = 0.05
"""Of a deadline, the share that is left for the winner's way to the journal, at least."""
RESERVES = 2.0
"""The same in commits as long as the last."""


@dataclass(frozen=True)
class Stage:
    """What all cycles of a run are played on."""

    config: RunConfig
    lines: Mapping[str, ArmState]
    pool: Pool
    committer: Committer
    run_hash: str
    driver: str
    """This process, told apart from any other that might write to the run."""


def play(stage: Stage, fed: PreparedChunk, meanwhile: Callable[[], None]) -> list[CycleRecord]:
    """Play one cycle, and leave it to be committed; returns the records of the cycle before.

    `meanwhile` begins what is to be done while actors train.
    """
    clock, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="milliseconds")
    lines = _taking_part(stage, fed.cycle)
    plans = _plans(stage, lines, fed)
    rounds = [_round(stage, line, plan, fed) for line, plan in plans.items() if plan]
    planned = time.monotonic()
    before: list[CycleRecord] = []
    results, changes, trained = {}, {}, planned
    for result in stage.pool.train(rounds, _deadline(stage, clock), meanwhile):
        trained = time.monotonic()
        before += stage.committer.wait()  # it still reads the models of the cycle before
        line = stage.lines[result.arm]
        line.learn(result)
        plan = plans[line]
        if result.tables is not None and plan is not None and fed.chunk is not None:
            start = plan.working_set
            changes[line] = line.take_over(fed.cycle, fed.chunk, start, result.tables)
        results[line] = result
    before += stage.committer.wait()
    end = time.monotonic()
    timings = {"feed": fed.seconds, "plan": planned - clock, "train": trained - planned,
               "crown": end - trained, "cycle": end - clock}  # fmt: skip
    sealed = [
        PendingCommit(line, _draft(stage, fed, line, plan, results.get(line), started, timings),
               changes.get(line))
        for line, plan in plans.items()
    ]  # fmt: skip
    stage.committer.take(sealed)
    return before


def _deadline(stage: Stage, began: float) -> float | None:
    """When training must end, so that the champion is in the journal at the deadline."""
    whole = stage.config.deadline_s
    if whole is None:
        return None
    after = GRACE_S + max(RESERVE * whole, RESERVES * stage.committer.seconds)
    return began + max(whole - after, whole / 2)


def _taking_part(stage: Stage, cycle: int) -> list[ArmState]:
    """The arms of this cycle, in their order; one that begins now gets what it begins from."""
    lines = [line for line in stage.lines.values() if line.arm.first_cycle <= cycle]
    for line in lines:
        start = line.arm.start_from
        if start is not None and start.cycle == cycle:
            begin_from(line, stage.lines[start.arm])
    return lines


def _plans(
    stage: Stage, lines: Sequence[ArmState], fed: PreparedChunk
) -> dict[ArmState, Plan | None]:
    """What each arm does, all from the same draws; None where there is nothing to train on."""
    if fed.chunk is None:
        return dict.fromkeys(lines)
    config = stage.config
    draws = draw(config, fed.cycle, generator(config.seed, fed.cycle))
    leader = _leader(stage)
    return {line: line.plan(fed.cycle, fed.chunk, draws, leader) for line in lines}


def _leader(stage: Stage) -> SearchState | None:
    sampler = stage.config.search.sampler
    follow = sampler.follow if isinstance(sampler, AdaptiveSampler) else None
    return None if follow is None else stage.lines[follow].search


def _round(stage: Stage, line: ArmState, plan: Plan, fed: PreparedChunk) -> ArmProgress:
    return ArmProgress(
        line.arm.name,
        fed.cycle,
        plan.tasks,
        fed.info.events,
        line.pace,
        chunk=fed.shared,
        start=stage.pool.share(plan.working_set.tables),
        serve=line.crowned,
    )


def _draft(
    stage: Stage,
    fed: PreparedChunk,
    line: ArmState,
    plan: Plan | None,
    result: ArmResult | None,
    started: str,
    timings: dict[str, float],
) -> CycleRecord:
    """The record, but for the champion's files and norms."""
    return CycleRecord(
        driver=stage.driver,
        config_hash=stage.run_hash,
        seed=stage.config.seed,
        arm=line.arm.name,
        cycle=fed.cycle,
        started=started,
        chunk=fed.info,
        outcomes=result.outcomes if result else (),
        winner=result.winner if result else None,
        model=(),
        served_logloss=result.served if result else None,
        norms=None,
        caution=plan.caution if plan else line.search.caution,
        search=line.search,
        timings={name: round(seconds, 6) for name, seconds in timings.items()},
    )
