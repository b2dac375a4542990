"""Runs everything behind the results page, then writes a report of each experiment.

Takes hours on two cores. The same command resumes after a stop or a crash: runs resume from their
journals, and finished ones are skipped. `scripts/results/results.py` writes the outcome to
scripts/results/README.md.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import click

from scripts.results.readme import ROOT

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
SEEDS = (1, 2, 3)
ABORTS = 4
"""Aborted instances of each run that are trained again for the scatter."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A config that is run with several seeds, on each of these presets of the simulator."""

    name: str
    config: str
    presets: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """What it sets in the config."""

    def runs(self, seeds: tuple[int, ...]) -> Iterator["PlannedRun"]:
        """Its runs, preset by preset."""
        for preset, seed in product(self.presets or (None,), seeds):
            sets = (f"seed={seed}", *self.changes)
            if preset is None:
                yield PlannedRun(self, f"{self.name}-{seed}", sets)
            else:
                market = (f"source.seed={seed}", f"source.preset={preset}")
                yield PlannedRun(self, f"{self.name}-{preset}-{seed}", (*market, *sets))


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run: its folder's name, and what it changes in the config."""

    experiment: Experiment
    name: str
    sets: tuple[str, ...]

    def command(self, out: Path) -> list[str]:
        """The command that starts the run, and resumes it."""
        sets = [part for one in self.sets for part in ("--set", one)]
        config = f"configs/{self.experiment.config}.yaml"
        return [HOLDFAST, "run", config, "--out", str(out / self.name), *sets]


WIDE = ("search.sampler.spread.eta0=30", "cycles=216")
"""Two days of wider draws: how many instances a cycle loses depends above all on how far
they are drawn from the champion, and the paper does not say how far production draws."""
EXPERIMENTS = (
    Experiment("movielens", "paper-movielens"),
    Experiment("map", "stability-map", ("stormy",)),
    Experiment("rules", "rules", ("stormy",)),
    Experiment("rho", "rho-search", ("stormy",)),
    Experiment("week", "paper-week", ("stormy", "calm")),
    Experiment("duel", "entropic-vs-euclidean", ("stormy",)),
    Experiment("wide", "paper-week", ("stormy",), WIDE),
    Experiment("lift", "paper-lift", ("stormy", "calm")),
)


def planned(seeds: tuple[int, ...], only: tuple[str, ...]) -> list[PlannedRun]:
    """All runs, experiment by experiment."""
    wanted = [one for one in EXPERIMENTS if not only or one.name in only]
    return [run for one in wanted for run in one.runs(seeds)]


@click.command()
@click.option("--out", default="runs/paper", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the runs and reports.")  # fmt: skip
@click.option("--seeds", default=len(SEEDS), show_default=True, type=click.IntRange(min=1),
              help="How many seeds: 1, 2, ...")  # fmt: skip
@click.option("--only", multiple=True, type=click.Choice([one.name for one in EXPERIMENTS]),
              help="Only these experiments.")  # fmt: skip
@click.option("--list", "listed", is_flag=True, help="Show the commands, run nothing.")
def main(out: Path, seeds: int, only: tuple[str, ...], listed: bool) -> None:
    """Run every experiment of the paper and the stability map; resumable."""
    out = out.resolve()
    runs = planned(tuple(range(1, seeds + 1)), only)
    if listed:
        for run in runs:
            click.echo(" ".join(["holdfast", *run.command(out)[1:]]))
        return
    if any(run.experiment.name == "movielens" for run in runs):
        _call([HOLDFAST, "data", "fetch", "movielens-100k"])
    began = time.monotonic()
    for number, run in enumerate(runs, 1):
        minutes = (time.monotonic() - began) / 60
        click.secho(f"[{number}/{len(runs)}, {minutes:.0f} min] {run.name}", bold=True)
        _call(run.command(out))
    for experiment in dict.fromkeys(run.experiment for run in runs):
        folders = [str(out / run.name) for run in runs if run.experiment is experiment]
        aborts = ["--aborts", str(ABORTS)] if experiment.name in ("week", "movielens") else []
        where = ["--out", str(out / f"report-{experiment.name}")]
        click.secho(f"report of {experiment.name}", bold=True)
        _call([HOLDFAST, "report", *folders, *aborts, *where])
    click.echo(f"done; for the results page: python scripts/results/results.py {out}")


def _call(command: list[str]) -> None:
    """Run a command to its end; where it fails, end as it did."""
    with subprocess.Popen(command, cwd=ROOT) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # the run has it too, and finishes its cycle
                continue
    if code:
        click.echo("not done; the same command resumes where this one stopped", err=True)
        sys.exit(code)


if __name__ == "__main__":
    main()
