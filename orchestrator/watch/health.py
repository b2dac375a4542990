"""Whether a run is healthy, and if not why, from its run folder alone."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from orchestrator.journal.journal import check_files, cycles_of, read_record
from orchestrator.journal.record import CorruptError, CycleRecord, count_outcomes, winning_outcome
from orchestrator.storage.store import Store

HOUR = timedelta(hours=1)
MAX_RECORDS = 400
"""The most records read for one arm: an hour of nine-second cycles."""
MIN_RETAINED = 0.8
MAX_LOST = 0.05
MAX_SET_ASIDE = 0.01
LATE_CYCLES = 2
MIN_LATE_S = 60.0
"""A run with short cycles is not late before this."""
STALE_CYCLES = 3
STARTING_S = 600.0
"""How long a run may take until its first commit."""


@dataclass(frozen=True, slots=True)
class ArmHealth:
    """The last hour of an arm."""

    arm: str
    cycle: int
    """The newest committed cycle."""
    cycles: int
    """The number of cycles in the hour."""
    retained_fraction: float | None
    launched: int
    failed: int
    late: int
    champion_cycle: int | None
    """The newest cycle of the hour with a winner."""
    logloss: float | None
    served_logloss: float | None
    constant_logloss: float
    set_aside_share: float


class RunState(StrEnum):
    """A run's health in one word."""

    STARTING = "starting"
    """Its driver is at work, and no cycle is committed yet."""
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    FINISHED = "finished"
    STOPPED = "stopped"
    """Its driver has ended and given up its lease, before the run was finished."""


@dataclass(frozen=True, slots=True)
class Health:
    """The state of a run at one time. `holdfast health --json` prints these fields."""

    driver: str
    """Which driver holds the lease, for a message."""
    working: bool
    complete: bool
    driver_age_s: float | None
    """How long the driver has had its lease."""
    stopped: bool
    """No driver holds the lease, and the run is not complete."""
    arms: Mapping[str, ArmHealth]
    commit_age_s: float | None
    interval_s: float | None
    """The median time from one commit to the next."""
    lag_s: float | None
    """Age of the newest trained event; None unless the source is a live stream."""
    damaged: tuple[str, ...]
    set_aside: Mapping[str, int] = field(default_factory=dict)
    """Rows of the last hour that were skipped, by reason."""


def last_hour(
    store: Store, arm: str, known: Mapping[tuple[str, int], CycleRecord] = {}
) -> tuple[list[CycleRecord], list[str]]:
    """The arm's records of the hour up to its newest, oldest first, and errors of corrupt files."""
    found: list[CycleRecord] = []
    errors: list[str] = []
    for cycle in reversed(cycles_of(store, arm)[-MAX_RECORDS:]):
        try:
            record = known.get((arm, cycle)) or read_record(store, arm, cycle)
        except CorruptError as error:
            errors.append(str(error))
            continue
        if (
            len(found) > 1 and started_at(record) < started_at(found[0]) - HOUR
        ):  # an interval needs two
            break
        found.append(record)
    if found:
        errors += _champion_errors(store, found[0])
    return found[::-1], errors


def _champion_errors(store: Store, newest: CycleRecord) -> Iterator[str]:
    """Errors of the champion's files. Only the last is read: the first may be large."""
    folders = {file.path.rpartition("/")[0] for file in newest.model}
    existing = {f"{folder}/{name}" for folder in folders for name in store.names(folder)}
    missing = [file.path for file in newest.model if file.path not in existing]
    yield from (f"{path}: missing" for path in missing)
    if missing:
        return
    try:
        check_files(store, newest.model[-1:], {})
    except CorruptError as error:
        yield str(error)


def arm_health(records: Sequence[CycleRecord]) -> ArmHealth:
    """Summarise an arm's records, of which there is at least one."""
    records = [record for record in records if record.chunk.events] or records[-1:]
    counts, newest = [count_outcomes(record) for record in records], records[-1]
    decided = sum(c.retained + c.diverged for c in counts)
    retained = sum(c.retained for c in counts)
    judged = [r for r in records if r.served_logloss is not None]
    served = [r.served_logloss for r in judged if r.served_logloss is not None]
    events = sum(r.chunk.events for r in records)
    aside = sum(sum(r.chunk.set_aside.values()) for r in records)
    best = winning_outcome(newest)
    return ArmHealth(
        arm=newest.arm,
        cycle=newest.cycle,
        cycles=len(records),
        retained_fraction=retained / decided if decided else None,
        launched=sum(c.launched for c in counts),
        failed=sum(c.failed for c in counts),
        late=sum(c.late for c in counts),
        champion_cycle=max((r.cycle for r in records if r.winner is not None), default=None),
        logloss=best.logloss if best else None,
        served_logloss=statistics.fmean(served) if served else None,
        constant_logloss=statistics.fmean(r.chunk.constant_logloss for r in judged or records),
        set_aside_share=aside / (aside + events) if aside + events else 0.0,
    )


def interval_s(records: Sequence[CycleRecord]) -> float | None:
    """The median time between two cycles; None if there is only one."""
    times = [started_at(record) for record in records[-20:]]
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return statistics.median(gaps) if gaps else None


def committed_at(record: CycleRecord) -> datetime:
    """About when a cycle was committed."""
    seconds = record.timings.get("cycle", 0.0)
    return started_at(record) + timedelta(seconds=seconds if 0 <= seconds < 1e6 else 0.0)


def started_at(record: CycleRecord) -> datetime:
    """When a cycle started."""
    return parse_time(record.started)


def parse_time(text: str) -> datetime:
    """A time as records store it; UTC if it has no time zone."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def reasons(health: Health) -> list[str]:
    """Why the run is not healthy, a line each; empty if it is.

    Nothing is expected of a run that is finished or was stopped but its files.
    """
    if health.complete or health.stopped:
        return list(health.damaged)
    return [*_driver_reasons(health), *health.damaged, *_arm_reasons(health.arms.values())]


def state_of(health: Health, why: Sequence[str]) -> RunState:
    """The state in one word; `why` are the reasons."""
    if why:
        return RunState.UNHEALTHY
    if health.stopped:
        return RunState.STOPPED
    if health.complete:
        return RunState.FINISHED
    return RunState.HEALTHY if health.arms else RunState.STARTING


def _driver_reasons(health: Health) -> Iterator[str]:
    if not health.working:
        yield f"its driver has died: {health.driver}; the same `holdfast run` resumes it"
    age, usual = health.commit_age_s, health.interval_s
    if not health.arms:
        if health.driver_age_s is None or health.driver_age_s > STARTING_S:
            yield "no cycle is committed yet"
    elif age is not None and usual is not None:
        limit_s = max(LATE_CYCLES * usual, MIN_LATE_S)
        if age > limit_s:
            yield f"no commit for {age:.0f} s, but a cycle usually takes {usual:.3g} s"
    if health.lag_s is not None and usual is not None and health.lag_s > 3 * usual + 60:
        yield f"the newest trained event is {health.lag_s:.0f} s old: the run is behind the stream"


def _arm_reasons(arms: Iterable[ArmHealth]) -> Iterator[str]:
    for arm in arms:
        fraction, lost = arm.retained_fraction, arm.failed + arm.late
        if fraction is not None and fraction < MIN_RETAINED:
            found = f"retained fraction {fraction:.2f} in the last hour"
            yield f"{arm.arm}: {found}, below {MIN_RETAINED}"
        if lost > MAX_LOST * arm.launched:
            yield f"{arm.arm}: {arm.failed} failed and {arm.late} late of {arm.launched} instances"
        newest = -1 if arm.champion_cycle is None else arm.champion_cycle
        if arm.cycles >= STALE_CYCLES and newest <= arm.cycle - STALE_CYCLES:
            yield f"{arm.arm}: no new champion in the last {STALE_CYCLES} cycles"
        if arm.served_logloss is not None and arm.served_logloss > arm.constant_logloss:
            yield (
                f"{arm.arm}: the served log-loss, {arm.served_logloss:.5f}, is worse than that of "
                f"a constant CTR, {arm.constant_logloss:.5f}"
            )
        if arm.set_aside_share > MAX_SET_ASIDE:
            yield f"{arm.arm}: {arm.set_aside_share:.1%} of the rows were invalid and skipped"
