"""The experiments behind the results page: which configs, with which changes, and how much work."""

import math
import shlex
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.config.file import load_config
from orchestrator.config.schema import RunConfig
from orchestrator.journal.journal import cycles_of
from orchestrator.storage.local_store import LocalStore
from scripts.results.readme import ROOT

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
SEEDS = (1, 2, 3)
START_S = 12.0
"""To start Ray and compile, for each run."""
ARM_S = 0.008
"""For each arm and cycle beside its training: its model, its record, the served log-loss."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A config that is run with several seeds."""

    name: str
    config: str
    changes: tuple[str, ...] = ()
    """What it sets in the config."""
    aborts: int = 0
    """Aborted instances of each run that are trained again for the scatter."""
    events: int | None = None
    """All events of a stream that ends; None: it is simulated, and has a seed of its own."""
    seeds: tuple[int, ...] = SEEDS
    """The seeds of its results."""

    def runs(self, seeds: tuple[int, ...], sets: tuple[str, ...] = ()) -> list["PlannedRun"]:
        """One run for each seed; without any, for those of its results."""
        return [PlannedRun(self, seed, sets) for seed in seeds or self.seeds]


@dataclass(frozen=True)
class PlannedRun:
    """One run: its folder's name, what it changes in the config, and its work."""

    experiment: Experiment
    seed: int
    more: tuple[str, ...] = ()
    """What it sets in the config beside that."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.experiment.name}-{self.seed}"

    @property
    def sets(self) -> tuple[str, ...]:
        """Its assignments to the config."""
        seeds = [f"seed={self.seed}"]
        if self.experiment.events is None:
            seeds.append(f"source.seed={self.seed}")
        return (*seeds, *self.experiment.changes, *self.more)

    @property
    def path(self) -> str:
        """Its config, as seen from the root of the repository."""
        return f"configs/{self.experiment.config}.yaml"

    @cached_property
    def config(self) -> RunConfig:
        """Its config."""
        return load_config(str(ROOT / self.path), self.sets)

    @property
    def cycles(self) -> int:
        """How many cycles it has in the end."""
        if self.config.cycles is not None:
            return self.config.cycles
        cut: Any = getattr(self.config.source, "cut")  # noqa: B009
        return math.ceil(float((self.experiment.events or 0) / cut.events))

    @property
    def events_per_cycle(self) -> float:
        """On average."""
        if self.experiment.events is not None:
            return self.experiment.events / self.cycles
        return float(getattr(self.config.source, "events_per_cycle"))  # noqa: B009

    def command(self, out: Path, *more: str) -> list[str]:
        """The command that starts the run, and resumes it."""
        sets = [part for one in (*self.sets, *more) for part in ("--set", one)]
        return [HOLDFAST, "run", self.path, "--out", str(out / self.name), *sets]

    def arguments(self, out: Path) -> str:
        """What follows `holdfast` in that command."""
        return shlex.join(self.command(out)[1:])

    def committed(self, out: Path) -> int:
        """How many of its cycles are finished."""
        newest = cycles_of(LocalStore(out / self.name), self.config.arms[0].name)[-1:]
        return min(newest[0] + 1, self.cycles) if newest else 0

    def seconds(self, event_s: float, cores: int, done: int = 0) -> float:
        """A guess of its time from cycle `done` on; `event_s`: one event of one instance."""
        if done >= self.cycles:
            return 0.0
        arm_cycles = sum(self.cycles - max(done, arm.first_cycle) for arm in self.config.arms)
        training = self.config.search.instances * self.events_per_cycle * event_s / cores
        return START_S + arm_cycles * (training + ARM_S)


TWO_DAYS = ("cycles=216", "source.events_per_cycle=10000")
WIDE = (
    "cycles=216",
    "search.sampler.spread.eta0=100",
    "search.sampler.spread.alpha=100",
)
NARROW = (
    "search.sampler.spread.eta0=10",
    "search.sampler.spread.alpha=10",
    "search.sampler.explore=0.1",
)
EXPERIMENTS = (
    Experiment("demo", "quickstart", seeds=(1, 2, 3, 4, 5)),
    Experiment("movielens", "paper-movielens", aborts=2, events=100_000),
    Experiment("week", "paper-week", aborts=2),
    Experiment("wide", "paper-week", WIDE),
    Experiment("faint", "paper-week", (*TWO_DAYS, "source.signal=faint", *NARROW)),
    Experiment("duel", "entropic-vs-euclidean"),
    Experiment("rules", "rules"),
    Experiment("rho", "rho-search"),
    Experiment("map", "stability-map"),
    Experiment("lift", "paper-lift"),
)


def planned(
    seeds: tuple[int, ...] = (), only: tuple[str, ...] = (), sets: tuple[str, ...] = ()
) -> list[PlannedRun]:
    """All runs, experiment by experiment; without seeds, with those of the results."""
    wanted = [one for one in EXPERIMENTS if not only or one.name in only]
    return [run for one in wanted for run in one.runs(seeds, sets)]
