"""Whether a run is well, and why not, from its folder alone."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from orchestrator.journal.journal import check_files, cycles_of, read_record
from orchestrator.journal.record import CorruptError, CycleRecord, champion, count_outcomes
from orchestrator.storage.store import Store

HOUR = timedelta(hours=1)
MOST_RECORDS = 400
"""Of an arm, at most so many are read: an hour of nine-second cycles."""
LEAST_RETAINED = 0.8
MOST_LOST = 0.05
MOST_SET_ASIDE = 0.01
LATE_CYCLES = 2
SHORTEST_WAIT_S = 60.0
"""A run of quick cycles is not late before this."""
STALE_CYCLES = 3


@dataclass(frozen=True, slots=True)
class ArmHealth:
    """An arm's last hour."""

    arm: str
    cycle: int
    """The newest committed one."""
    cycles: int
    """How many the hour has."""
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


@dataclass(frozen=True, slots=True)
class Health:
    """A run at a moment."""

    driver: str
    """Who has it, in words."""
    working: bool
    complete: bool
    arms: Mapping[str, ArmHealth]
    commit_age_s: float | None
    interval_s: float | None
    """The usual time from one commit to the next."""
    lag_s: float | None
    """How far the newest trained event is behind the clock; of a live stream only."""
    damaged: tuple[str, ...]


def last_hour(store: Store, arm: str) -> tuple[list[CycleRecord], list[str]]:
    """The arm's records of the hour up to its newest, oldest first, and what is damaged."""
    found: list[CycleRecord] = []
    damaged: list[str] = []
    for cycle in reversed(cycles_of(store, arm)[-MOST_RECORDS:]):
        try:
            record = read_record(store, arm, cycle)
        except CorruptError as fault:
            damaged.append(str(fault))
            continue
        if len(found) > 1 and begun(record) < begun(found[0]) - HOUR:  # two tell the interval
            break
        found.append(record)
    if found:
        damaged += _champion_faults(store, found[0])
    return found[::-1], damaged


def _champion_faults(store: Store, newest: CycleRecord) -> Iterator[str]:
    """What is wrong with the champion's files. Read is the last alone: the first may be large."""
    folders = {file.path.rpartition("/")[0] for file in newest.model}
    there = {f"{folder}/{name}" for folder in folders for name in store.names(folder)}
    missing = [file.path for file in newest.model if file.path not in there]
    yield from (f"{path}: missing" for path in missing)
    if missing:
        return
    try:
        check_files(store, newest.model[-1:], {})
    except CorruptError as fault:
        yield str(fault)


def arm_health(records: Sequence[CycleRecord]) -> ArmHealth:
    """What an arm's records say; there is at least one."""
    records = [record for record in records if record.chunk.events] or records[-1:]
    counts, newest = [count_outcomes(record) for record in records], records[-1]
    decided = sum(c.retained + c.diverged for c in counts)
    retained = sum(c.retained for c in counts)
    judged = [r for r in records if r.served_logloss is not None]
    served = [r.served_logloss for r in judged if r.served_logloss is not None]
    events = sum(r.chunk.events for r in records)
    aside = sum(sum(r.chunk.set_aside.values()) for r in records)
    best = champion(newest)
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
    """The usual time between two cycles; None where there is but one."""
    times = [begun(record) for record in records[-20:]]
    gaps = [(b - a).total_seconds() for a, b in pairwise(times)]
    return statistics.median(gaps) if gaps else None


def committed_at(record: CycleRecord) -> datetime:
    """About when a cycle was over."""
    return begun(record) + timedelta(seconds=record.timings.get("cycle", 0.0))


def begun(record: CycleRecord) -> datetime:
    """When a cycle began."""
    return moment(record.started)


def moment(text: str) -> datetime:
    """A time in a record; without a zone it is UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def reasons(health: Health) -> list[str]:
    """Why the run is not well, a line each; none where it is."""
    return [*_of_the_driver(health), *health.damaged, *_of_the_arms(health.arms.values())]


def _of_the_driver(health: Health) -> Iterator[str]:
    if health.complete:
        return
    if not health.working:
        yield f"nobody drives the run: {health.driver}; the same `holdfast run` goes on with it"
    age, usual = health.commit_age_s, health.interval_s
    if not health.arms:
        yield "nothing is committed yet"
    elif age is not None and usual is not None:
        most = max(LATE_CYCLES * usual, SHORTEST_WAIT_S)
        if age > most:
            yield f"no commit for {age:.0f} s, while a cycle usually takes {usual:.3g} s"
    if health.lag_s is not None and usual is not None and health.lag_s > 3 * usual + 60:
        yield f"the newest trained event is {health.lag_s:.0f} s old: the run is behind its stream"


def _of_the_arms(arms: Iterable[ArmHealth]) -> Iterator[str]:
    for arm in arms:
        fraction, lost = arm.retained_fraction, arm.failed + arm.late
        if fraction is not None and fraction < LEAST_RETAINED:
            yield f"{arm.arm}: retained fraction {fraction:.2f} in its last hour, below 0.8"
        if lost > MOST_LOST * arm.launched:
            yield f"{arm.arm}: {arm.failed} failed and {arm.late} late of {arm.launched} instances"
        crowned = -1 if arm.champion_cycle is None else arm.champion_cycle
        if arm.cycles >= STALE_CYCLES and crowned <= arm.cycle - STALE_CYCLES:
            yield f"{arm.arm}: no new champion in the last {STALE_CYCLES} cycles"
        if arm.served_logloss is not None and arm.served_logloss > arm.constant_logloss:
            yield (
                f"{arm.arm}: the served log-loss, {arm.served_logloss:.5f}, is worse than that of "
                f"a constant CTR, {arm.constant_logloss:.5f}"
            )
        if arm.set_aside_share > MOST_SET_ASIDE:
            yield f"{arm.arm}: {arm.set_aside_share:.1%} of the rows were broken and set aside"
