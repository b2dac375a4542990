"""`holdfast health`: whether a run is healthy, and if not, why."""

import json
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime

import click

from orchestrator.commands.options import json_option, run_argument
from orchestrator.config.schema import RunConfig
from orchestrator.journal.run_folder import run_config
from orchestrator.storage.lease import LeaseTiming, current_lease, holder_is_alive
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store
from orchestrator.watch.console import duration
from orchestrator.watch.health import (
    ArmHealth,
    Health,
    arm_health,
    committed_at,
    interval_s,
    last_hour,
    parse_time,
    reasons,
)

UNHEALTHY = 3


@click.command("health", epilog="Example: holdfast health s3://bucket/run || echo unhealthy")
@run_argument
@json_option
def command(run: str, as_json: bool) -> None:
    """Show whether RUN is healthy, and if not, why. Exit code 0: healthy, 3: unhealthy.

    Reads only the run folder, so it works on any machine that can read it. If the driver runs on
    another machine, the command waits a few seconds for its heartbeat.
    """
    store = open_store(run)
    found = examine(store, run_config(store))
    why = reasons(found)
    if as_json:
        click.echo(json.dumps({"run": store.uri, "well": not why, "reasons": why, **asdict(found)}))
    else:
        click.echo("\n".join(lines(store.uri, found, why)))
    sys.exit(UNHEALTHY if why else 0)


def examine(store: Store, config: RunConfig) -> Health:
    """Check the journal and the run's lease."""
    now = datetime.now(UTC)
    hours = {arm.name: last_hour(store, arm.name) for arm in config.arms}
    arms = {name: arm_health(records) for name, (records, _) in hours.items() if records}
    newest = max((r for r, _ in hours.values()), key=len)
    done = min((arm.cycle + 1 for arm in arms.values()), default=0)
    driver, working = _driver(store)
    live = config.source.live and newest and newest[-1].chunk.newest
    return Health(
        driver=driver,
        working=working,
        complete=config.cycles is not None and len(arms) == len(hours) and done >= config.cycles,
        arms=arms,
        commit_age_s=(now - committed_at(newest[-1])).total_seconds() if newest else None,
        interval_s=interval_s(newest),
        lag_s=(now - parse_time(live)).total_seconds() if live else None,
        damaged=tuple(fault for _, damaged in hours.values() for fault in damaged),
    )


def _driver(store: Store) -> tuple[str, bool]:
    lease = current_lease(store)
    if lease is None:
        return "no driver holds the lease", False
    timing = LeaseTiming()
    short = replace(timing, expires_after_s=2 * timing.heartbeat_s)  # enough for a heartbeat
    if holder_is_alive(store, lease, lambda _: None, short):
        return str(lease), True
    return f"{lease} is dead", False


def lines(name: str, health: Health, why: list[str]) -> list[str]:
    """The lines that the command shows."""
    state = "unhealthy" if why else "complete" if health.complete else "healthy"
    found = [f"{name}: {state}", *(f"  ! {reason}" for reason in why)]
    found.append(f"  driver       {health.driver if not health.complete else 'done'}")
    if health.commit_age_s is not None:
        usual = f", one every {duration(health.interval_s)}" if health.interval_s else ""
        found.append(f"  last commit  {duration(health.commit_age_s)} ago{usual}")
    if health.lag_s is not None:
        found.append(f"  stream       the newest trained event is {duration(health.lag_s)} old")
    return found + [f"  {arm.arm:<12} {_arm_line(arm)}" for arm in health.arms.values()]


def _arm_line(arm: ArmHealth) -> str:
    parts = [f"cycle {arm.cycle}"]
    if arm.retained_fraction is not None:
        parts.append(
            f"retained {arm.retained_fraction:.3f} of {arm.launched} in {arm.cycles} cycles"
        )
    parts.append(f"failed {arm.failed}, late {arm.late}")
    if arm.served_logloss is not None:
        parts.append(f"served log-loss {arm.served_logloss:.5f}")
    parts.append(f"constant {arm.constant_logloss:.5f}")
    if arm.champion_cycle is not None:
        parts.append(f"champion of cycle {arm.champion_cycle}")
    return " · ".join(parts)
