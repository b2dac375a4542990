"""`holdfast health`: whether a run is healthy, and if not, why."""

import json
import shlex
import sys
from dataclasses import asdict

import click

from orchestrator.commands.options import json_option, run_argument
from orchestrator.journal.run_folder import run_config
from orchestrator.publish.state import published_state
from orchestrator.storage.open import open_store
from orchestrator.watch.console import duration
from orchestrator.watch.examine import examine
from orchestrator.watch.health import ArmHealth, Health, RunState, reasons, state_of
from orchestrator.watch.set_aside import set_aside_text

EXIT_CODES = {RunState.UNHEALTHY: 3, RunState.STOPPED: 4}


@click.command("health", epilog="Example: holdfast health s3://bucket/run || echo unhealthy")
@run_argument
@json_option
def command(run: str, as_json: bool) -> None:
    """Show whether RUN is healthy, and if not, why.

    Exit code 0: starting, healthy or finished; 3: unhealthy; 4: stopped before it was finished,
    with Ctrl-C or by an error. Says whether the place of `publish:` is held after a rollback.

    Reads only the run folder, so it works on any machine that can read it. If the driver runs on
    another machine, the command waits a few seconds for its heartbeat.
    """
    store = open_store(run)
    config = run_config(store)
    found, place = examine(store, config), published_state(config)
    why = reasons(found)
    state = state_of(found, why)
    code = EXIT_CODES.get(state, 0)
    if as_json:
        named = {"run": store.uri, "state": state, "well": not code, "reasons": why}
        published = asdict(place) if place else None
        click.echo(json.dumps({**named, "published": published, **asdict(found)}))
    else:
        listed = lines(store.uri, found, why)
        if aside := set_aside_text(found.set_aside, config, store.uri):
            listed.append(f"  last hour    {aside}")
        if place is not None:
            listed.append(f"  published    {place}")
        click.echo("\n".join(listed))
    sys.exit(code)


def lines(name: str, health: Health, why: list[str]) -> list[str]:
    """The lines that the command shows."""
    state = state_of(health, why)
    found = [f"{name}: {state}", *(f"  ! {reason}" for reason in why)]
    found.append(f"  driver       {health.driver if not health.complete else 'done'}")
    if state is RunState.STOPPED:
        again = shlex.join(["holdfast", "run", f"{name}/config.yaml", "--out", name, "--resume"])
        where = "" if "://" in name else f", or in the folder where it was started: {again}"
        found.append(f"  to resume    the same `holdfast run` command{where}")
    if not health.arms:
        found.append("  last commit  no cycle is committed yet")
    if health.commit_age_s is not None:
        found.append(f"  last commit  {duration(health.commit_age_s)} ago{_rate(health)}")
    if health.lag_s is not None:
        found.append(f"  stream       the newest trained event is {duration(health.lag_s)} old")
    return found + [f"  {arm.arm:<12} {_arm_line(arm)}" for arm in health.arms.values()]


def _rate(health: Health) -> str:
    if not health.interval_s or not health.working:
        return ""
    if health.interval_s < 1:
        return f", {1 / health.interval_s:.1f} a second"
    return f", one every {duration(health.interval_s)}"


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
