"""`holdfast log`: the committed cycles of a run."""

import json
import sys
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import click
from pydantic import TypeAdapter

from divergence.errors import InputError
from orchestrator.commands.options import json_option, run_argument
from orchestrator.config.schema import LineagesSelect
from orchestrator.journal.journal import records_of
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import run_config
from orchestrator.search.lineages import Lineages
from orchestrator.storage.open import open_store
from orchestrator.watch.console import JsonView, LineView
from orchestrator.watch.lines import HEADINGS, summary_of, table_of

LINES = TypeAdapter(Lineages)


@click.command("log", epilog="Example: holdfast log runs/first --last 10")
@run_argument
@click.option(
    "--last", metavar="N", type=click.IntRange(min=1), help="Show only the last N cycles."
)
@click.option(
    "--lines", "as_lines", is_flag=True, help="Show the lines of each arm after its last cycle."
)
@json_option
def command(run: str, last: int | None, as_lines: bool, as_json: bool) -> None:
    """Show the committed cycles of RUN (a folder or URI), one line for each arm and cycle.

    With search.select lineages it also says when another line becomes champion, or is replaced.
    """
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
    if as_lines:
        if not isinstance(config.search.select, LineagesSelect):
            raise InputError("--lines: the run has no lines: its search.select is champion")
        _show_lines(records, as_json)
        return
    cycles = [list(group) for _, group in groupby(records, key=attrgetter("cycle"))]
    for cycle in cycles[-last:] if last else cycles:
        view.show(cycle)


def _show_lines(records: Sequence[CycleRecord], as_json: bool) -> None:
    """The lines of each arm after its last record."""
    arms: dict[str, list[CycleRecord]] = {}
    for record in records:
        arms.setdefault(record.arm, []).append(record)
    found = [(summary_of(own), own[-1].lineages) for own in arms.values()]
    if not any(lines for _, lines in found):
        raise InputError("--lines: no record that can be read has lines yet")
    for (summary, lines), arm in zip(found, arms, strict=True):
        if lines is None:
            continue
        if as_json:
            state = LINES.dump_python(lines.state, mode="json")
            click.echo(json.dumps({"arm": arm, "cycle": lines.cycle, "why": lines.why, **state}))
            continue
        click.echo(summary)
        rows = [HEADINGS, *table_of(lines)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            click.echo("  " + "  ".join(cells).rstrip())
