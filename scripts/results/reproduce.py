"""Runs everything behind the results page, writes a report of each experiment, then the tables.

It says first how long this machine will take, about, and how much is left while it runs. The same
command resumes after a stop or a crash: runs resume from their journals, and finished ones are
skipped. `scripts/results/results.py` makes the page and its pictures from the tables alone.
"""

import os
import sys
import time
from pathlib import Path

import click

from divergence.errors import InputError
from orchestrator.watch.console import duration
from scripts.results.experiment_tables import TABLES, write_tables
from scripts.results.experiments import EXPERIMENTS, HOLDFAST, PlannedRun, planned
from scripts.results.readme import ROOT
from scripts.results.running import Forecast, call, check_configs, event_seconds, run_all

CORES = os.cpu_count() or 1


class Seeds(click.ParamType[tuple[int, ...]]):
    """Seeds such as 1-3 or 1,2,5."""

    name = "seeds"

    def convert(self, value: object, param: object, ctx: object) -> tuple[int, ...]:
        """The seeds, without repetitions."""
        found: list[int] = []
        for part in str(value).split(","):
            low, _, high = part.partition("-")
            if not (low.isdecimal() and (high or low).isdecimal()) or int(high or low) < int(low):
                self.fail(f"must be seeds such as 1-3 or 1,2,5, but is {value!r}")
            found += range(int(low), int(high or low) + 1)
        return tuple(dict.fromkeys(found))


@click.command()
@click.option("--out", default="runs/paper", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the runs and reports.")  # fmt: skip
@click.option("--seeds", show_default="those of the results", type=Seeds(),
              help="Such as 1-3 or 1,2,5.")  # fmt: skip
@click.option("--only", multiple=True, type=click.Choice([one.name for one in EXPERIMENTS]),
              help="Only this experiment. Can be repeated.")  # fmt: skip
@click.option("--jobs", default=min(CORES, 4), show_default=True, type=click.IntRange(min=1),
              help="Runs side by side, which share the cores.")  # fmt: skip
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Change every run, to try things out.")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show commands and times, run nothing.")
def main(
    out: Path,
    seeds: tuple[int, ...] | None,
    only: tuple[str, ...],
    jobs: int,
    sets: tuple[str, ...],
    listed: bool,
) -> None:
    """Run every experiment of the paper and the stability map; resumable."""
    out = out.resolve()
    try:
        runs = planned(seeds or (), only, sets)
        check_configs(runs, out)
    except InputError as error:
        click.echo(f"reproduce: {error}", err=True)
        sys.exit(2)
    actors = max(1, CORES // jobs)
    click.echo("measuring the speed of this machine", err=True)
    pace = Forecast(runs, out, jobs, actors, event_seconds())
    if listed:
        for run in runs:
            click.echo(f"{duration(pace.left_of(run)):>7}  holdfast {run.arguments(out)}")
    click.echo(
        f"{len(runs)} runs, {pace.finished} of them finished; about {duration(pace.remaining())} "
        f"for the others if nothing else runs here, {jobs} side by side, then some minutes for the "
        f"reports ({1e6 * pace.event_s:.2f} µs per event, instance and core)"
    )
    if listed:
        return
    if any(run.experiment.name == "movielens" for run in runs):
        call([HOLDFAST, "data", "fetch", "movielens-100k"])
    run_all(pace)
    trial = bool(sets or seeds)
    tables = out / "tables" if trial else TABLES
    _write(runs, out, tables)
    click.echo(f"done; for the results page: python scripts/results/results.py {_shown(tables)}")


def _write(runs: list[PlannedRun], out: Path, tables: Path) -> None:
    """A report of each experiment, and what the results page needs of it."""
    for experiment in dict.fromkeys(run.experiment for run in runs):
        began = time.monotonic()
        folders = [str(out / run.name) for run in runs if run.experiment is experiment]
        report = str(out / f"report-{experiment.name}")
        write_tables(experiment, folders, report, tables)
        took = duration(time.monotonic() - began)
        click.echo(f"report of {experiment.name}: {report}/report.html ({took})")


def _shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


if __name__ == "__main__":
    main()
