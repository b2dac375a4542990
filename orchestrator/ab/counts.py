"""Daily counts of two arms, from a trial or from a csv file (`counts_file`)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

Design = Literal["split", "twins"]
DESIGNS: tuple[Design, ...] = ("split", "twins")

COLUMNS = ("day", "arm", "views", "clicks", "cost")
TRIAL = "trial"
"""An optional column that distinguishes repetitions of the same experiment."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Ad views, clicks on them, and the total cost of the clicks."""

    views: int
    clicks: int
    cost: float

    @property
    def ctr(self) -> float:
        """Clicks per view."""
        return self.clicks / self.views if self.views else math.nan

    @property
    def cpm(self) -> float:
        """Cost per thousand views."""
        return 1000.0 * self.cost / self.views if self.views else math.nan


Both = tuple[Counts, Counts]
"""The counts of the control and of the treatment."""


@dataclass(frozen=True, slots=True)
class Day:
    """One day of both arms."""

    day: int
    control: Counts
    treatment: Counts
    cycles: tuple[Both, ...] = ()
    """Cycle by cycle, for the intervals of twins; a split has none."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One A/B test, day by day."""

    name: str
    control: str
    treatment: str
    days: tuple[Day, ...]
    design: Design = "split"

    @property
    def totals(self) -> Both:
        """The counts of all days, for the control and for the treatment."""
        return total(d.control for d in self.days), total(d.treatment for d in self.days)


@dataclass
class InstanceCounts:
    """How many instances an arm launched and lost to divergence, over all cycles."""

    launched: int = 0
    diverged: int = 0

    @property
    def lost(self) -> float:
        """The share that diverged."""
        return self.diverged / self.launched if self.launched else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """The counts of a trial, and the instance counts of each arm."""

    trial: Trial
    tallies: tuple[InstanceCounts, InstanceCounts]


def trial_name(seed: int, design: Design) -> str:
    """How progress names a trial."""
    return f"seed {seed}" if design == "split" else f"seed {seed}, {design}"


def total(counts: Iterable[Counts]) -> Counts:
    """The sum of the counts."""
    given = list(counts)
    return Counts(
        sum(c.views for c in given), sum(c.clicks for c in given), math.fsum(c.cost for c in given)
    )


def trials_table(trials: Sequence[Trial]) -> pd.DataFrame:
    """One row per trial, day and arm, in the format that `read_counts` reads."""
    rows = [
        (trial.name, day.day, arm, counts.views, counts.clicks, counts.cost)
        for trial in trials
        for day in trial.days
        for arm, counts in ((trial.control, day.control), (trial.treatment, day.treatment))
    ]
    return pd.DataFrame(rows, columns=[TRIAL, *COLUMNS])
