"""`holdfast log`: the committed cycles of a run."""

import sys
from itertools import groupby
from operator import attrgetter

import click

from divergence.errors import InputError
from orchestrator.commands.options import json_option, run_argument
from orchestrator.journal.journal import records_of
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import run_config
from orchestrator.storage.open import open_store
from orchestrator.watch.console import JsonView, LineView


@click.command("log", epilog="Example: holdfast log runs/first --last 10")
@run_argument
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), help="Show only the last N cycles."
)
@json_option
def command(run: str, last: int | None, as_json: bool) -> None:
    """Show the committed cycles of RUN (a folder or URI), one line for each arm and cycle."""
    store = open_store(run)
    config = run_config(store)
    view = JsonView(sys.stdout) if as_json else LineView(sys.stdout, config.cycles)
    found = [entry for arm in config.arms for entry in records_of(store, arm.name)]
    records = sorted((e for e in found if isinstance(e, CycleRecord)), key=attrgetter("cycle"))
    for fault in found:
        if not isinstance(fault, CycleRecord):
            view.say(str(fault))
    if not found:
        raise InputError(f"{run}: no cycle is committed yet")
    cycles = [list(group) for _, group in groupby(records, key=attrgetter("cycle"))]
    for cycle in cycles[-last:] if last else cycles:
        view.show(cycle)
