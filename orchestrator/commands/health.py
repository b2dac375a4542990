"""`holdfast health`: whether a run is well, and why not."""

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
    moment,
    reasons,
)

NOT_WELL = 3


@click.command("health", epilog="Example: holdfast health s3://bucket/run || page somebody")
@run_argument
@json_option
def command(run: str, as_json: bool) -> None:
    """Say in one screen whether RUN is well and why not. Exit code 0: well, 3: not well.

    Looks at the run's folder alone, from any machine that can read it. A driver that runs
    elsewhere is watched for a few seconds.
    """
    store = open_store(run)
    found = examine(store, run_config(store))
    why = reasons(found)
    if as_json:
        click.echo(json.dumps({"run": store.uri, "well": not why, "reasons": why, **asdict(found)}))
    else:
        click.echo("\n".join(lines(store.uri, found, why)))
    sys.exit(NOT_WELL if why else 0)


def examine(store: Store, config: RunConfig) -> Health:
    """Look at the journal and at who claims the run."""
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
        lag_s=(now - moment(live)).total_seconds() if live else None,
        damaged=tuple(fault for _, damaged in hours.values() for fault in damaged),
    )


def _driver(store: Store) -> tuple[str, bool]:
    claim = current_lease(store)
    if claim is None:
        return "it was ended in order", False
    lease = LeaseTiming()
    short = replace(lease, silence_s=2 * lease.beat_s)  # enough for a heartbeat
    if holder_is_alive(store, claim, lambda _: None, short):
        return str(claim), True
    return f"{claim} is dead", False


def lines(name: str, health: Health, why: list[str]) -> list[str]:
    """The screen."""
    state = "not well" if why else "complete" if health.complete else "well"
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
        parts.append(f"retained {arm.retained_fraction:.3f} of {arm.launched} in {arm.cycles}")
    parts.append(f"failed {arm.failed}, late {arm.late}")
    if arm.served_logloss is not None:
        parts.append(f"served log-loss {arm.served_logloss:.5f}")
    parts.append(f"constant {arm.constant_logloss:.5f}")
    if arm.champion_cycle is not None:
        parts.append(f"champion of cycle {arm.champion_cycle}")
    return " · ".join(parts)
