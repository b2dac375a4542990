"""Examines a run folder: its journal, its lease and the end of its stream."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.storage.lease import Lease, LeaseTiming, current_lease, holder_is_alive
from orchestrator.storage.store import Store
from orchestrator.watch.health import (
    Health,
    arm_health,
    committed_at,
    interval_s,
    last_hour,
    parse_time,
)
from orchestrator.watch.set_aside import set_aside_in


def examine(
    store: Store, config: RunConfig, known: Mapping[tuple[str, int], CycleRecord] = {}
) -> Health:
    """Check the journal and the run's lease. `known` records, by arm and cycle, are not read."""
    now = datetime.now(UTC)
    hours = {arm.name: last_hour(store, arm.name, known) for arm in config.arms}
    arms = {name: arm_health(records) for name, (records, _) in hours.items() if records}
    newest = max((r for r, _ in hours.values()), key=len)
    done = min((arm.cycle + 1 for arm in arms.values()), default=0)
    lease = current_lease(store)
    driver, working = _driver(store, lease)
    complete = len(arms) == len(hours) and not working and _is_finished(store, config, done)
    live = config.source.live and newest and newest[-1].chunk.newest
    return Health(
        driver=driver,
        working=working,
        complete=complete,
        driver_age_s=_age_s(lease, now),
        stopped=lease is None and not complete,
        arms=arms,
        commit_age_s=(now - committed_at(newest[-1])).total_seconds() if newest else None,
        interval_s=interval_s(newest),
        lag_s=(now - parse_time(live)).total_seconds() if live else None,
        damaged=tuple(fault for _, damaged in hours.values() for fault in damaged),
        set_aside=set_aside_in(record for records, _ in hours.values() for record in records),
    )


def _is_finished(store: Store, config: RunConfig, done: int) -> bool:
    """Whether a run with this many cycles has all of them, or its stream has ended."""
    if config.cycles is not None and done >= config.cycles:
        return True
    return config.source.cycles_at_end(store.uri) == done


def _age_s(lease: Lease | None, now: datetime) -> float | None:
    """How long ago a lease was taken; None if there is none, or a stranger has written its time."""
    try:
        return (now - parse_time(lease.since)).total_seconds() if lease else None
    except (ValueError, OverflowError):
        return None


def _driver(store: Store, lease: Lease | None) -> tuple[str, bool]:
    if lease is None:
        return "no driver holds the lease", False
    timing = LeaseTiming()
    short = replace(timing, expires_after_s=2 * timing.heartbeat_s)  # enough for a heartbeat
    if holder_is_alive(store, lease, lambda _: None, short):
        return str(lease), True
    return f"{lease} is dead", False
