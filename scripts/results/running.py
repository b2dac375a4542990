"""Runs several runs side by side, and says how far they are and how long the rest will take."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from divergence.errors import InputError
from orchestrator.config.file import load_config
from orchestrator.config.schema import config_hash
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import prepare, run_config
from orchestrator.storage.local_store import LocalStore
from orchestrator.watch.console import duration
from scripts.results.experiments import START_S, PlannedRun
from scripts.results.readme import ROOT

POLL_S = 1.0
SHOW_S = 30.0
"""How often a line says how far we are."""
TRUSTED = 0.03
"""From this share of the work on, the time so far corrects the first estimate."""
SHARED = 1.15
"""Times the training of one instance alone: larger tables, and drivers on the same cores."""


def event_seconds() -> float:
    """What an event of one instance takes on one core, all in all, if nothing else runs.

    The fastest of a few instances: the others may have waited for a core.
    """
    from orchestrator.loop.run import run  # loads the kernels
    from orchestrator.pool.local_pool import LocalPool

    sets = ("search.instances=6", "source.seed=101", "search.sampler=random")
    config = load_config(str(ROOT / "configs/quickstart.yaml"), sets)
    config = config.model_copy(update={"arms": config.arms[:1], "cycles": 3})
    records: list[CycleRecord] = []
    folder = Path(tempfile.mkdtemp())
    try:
        store = LocalStore(folder)
        run(config, store, prepare(store, config), [records.extend], LocalPool)
    finally:
        shutil.rmtree(folder)
    taken = [o.seconds / o.events_done for o in records[-1].outcomes if o.events_done > 1000]
    return SHARED * min(taken)


def check_configs(runs: Sequence[PlannedRun], out: Path) -> None:
    """Refuse bad configs, and a folder whose run has another config."""
    for run in runs:
        wanted = config_hash(run.config)
        folder = out / run.name
        if (folder / "config.yaml").exists() and config_hash(
            run_config(LocalStore(folder))
        ) != wanted:
            raise InputError(f"{folder}: its run has another config: delete it, or change --out")


class Forecast:
    """How much of the runs is done, and how long the rest will take."""

    def __init__(
        self, runs: Sequence[PlannedRun], out: Path, jobs: int, actors: int, event_s: float
    ) -> None:
        self.runs, self.out, self.jobs, self.actors = runs, out, jobs, actors
        self.event_s = event_s
        self.began = time.monotonic()
        self.at_first = sum(map(self.left_of, runs))

    def left_of(self, run: PlannedRun) -> float:
        """The first guess of the seconds that the rest of a run takes, one run at a time."""
        return run.seconds(self.event_s, self.actors, run.committed(self.out))

    @property
    def finished(self) -> int:
        """How many runs have all their cycles."""
        return sum(run.committed(self.out) >= run.cycles for run in self.runs)

    def remaining(self) -> float:
        """The seconds until all is done, corrected by the time that the work so far took."""
        lefts = sorted(map(self.left_of, self.runs), reverse=True)
        ends = [0.0] * self.jobs
        for left in lefts:  # the longest first, each where a place is free
            ends[ends.index(min(ends))] += left
        done = self.at_first - sum(lefts)
        spent = self.jobs * (time.monotonic() - self.began)
        trusted = done > max(TRUSTED * self.at_first, 2 * START_S)
        return max(ends) * (spent / done if trusted else 1.0)

    def line(self, active: Sequence[PlannedRun]) -> str:
        """How far we are."""
        where = ", ".join(
            f"{run.name} {run.committed(self.out)}/{run.cycles} cycles" for run in active
        )
        share = 1 - sum(map(self.left_of, self.runs)) / self.at_first if self.at_first else 1.0
        return (
            f"[{self.finished} of {len(self.runs)} runs, {share:.0%} of the work, "
            f"about {duration(self.remaining())} left] {where}"
        )


def run_all(pace: Forecast) -> None:
    """Run what is not finished, the longest first; where one fails twice, stop and say why."""
    waiting = sorted(
        (run for run in pace.runs if pace.left_of(run) > 0), key=pace.left_of, reverse=True
    )
    active: dict[PlannedRun, subprocess.Popen[bytes]] = {}
    failed: set[PlannedRun] = set()
    stopping, shown, code = False, time.monotonic() - SHOW_S + 5 * POLL_S, 0
    while active or (waiting and not stopping):
        try:
            while waiting and len(active) < pace.jobs and not stopping:
                run = waiting.pop(0)
                active[run] = _started(run, pace)
            time.sleep(POLL_S)
        except KeyboardInterrupt:  # the runs have it too, and finish their cycles
            stopping, code = True, 130
        for run, process in list(active.items()):
            if process.poll() is not None:
                del active[run]
                if process.returncode == 0 or stopping:
                    continue
                click.echo(f"{run.name} failed:\n{_end_of(_log(run, pace.out))}", err=True)
                if run not in failed:  # a busy machine may have been the reason: resume it later
                    failed.add(run)
                    waiting.append(run)
                    continue
                stopping, code = True, process.returncode
                for other in active.values():
                    other.send_signal(signal.SIGINT)
        if active and time.monotonic() - shown > SHOW_S:
            shown = time.monotonic()
            click.echo(pace.line(list(active)))
    if stopping:
        click.echo("not done; the same command resumes where this one stopped", err=True)
        sys.exit(code)


def call(command: Sequence[str]) -> None:
    """Run a command to its end; where it fails, end as it did."""
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code:
        sys.exit(code)


def _started(run: PlannedRun, pace: Forecast) -> subprocess.Popen[bytes]:
    pace.out.mkdir(parents=True, exist_ok=True)
    command = run.command(pace.out, f"actors={pace.actors}")
    with _log(run, pace.out).open("ab") as log:
        return subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


def _log(run: PlannedRun, out: Path) -> Path:
    return out / f"{run.name}.log"


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:])
