"""Daily counts of two arms, from a trial or from a csv file."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from divergence.errors import InputError

COLUMNS = ("day", "arm", "views", "clicks", "cost")
COUNTED = ("day", "views", "clicks")
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


@dataclass(frozen=True, slots=True)
class Day:
    """One day of both arms."""

    day: int
    control: Counts
    treatment: Counts


@dataclass(frozen=True, slots=True)
class Trial:
    """One A/B test, day by day."""

    name: str
    control: str
    treatment: str
    days: tuple[Day, ...]

    @property
    def totals(self) -> tuple[Counts, Counts]:
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


def read_counts(path: str, control: str | None = None, treatment: str | None = None) -> list[Trial]:
    """The trials in a csv with the columns day, arm, views, clicks, cost and, optionally, trial.

    If the arms are not named, the control is the arm that comes first in the file.
    """
    table = _checked_table(path)
    arms = _arms(table, path, control, treatment)
    table = table[table["arm"].isin(arms)]
    return [
        Trial(str(name), *arms, _days(rows, arms, f"{path}: {TRIAL} {name}"))
        for name, rows in table.groupby(TRIAL, sort=False)
    ]


def _checked_table(path: str) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype={"arm": str, TRIAL: str}, skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a csv file: {' '.join(str(error).split())}") from None
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise InputError(
            f"{path}: needs the columns {', '.join(COLUMNS)}; missing: {', '.join(missing)}"
        )
    if TRIAL not in table.columns:
        table[TRIAL] = "all"
    counts = {name: _numbers(table, path, name, integer=True) for name in COUNTED}
    table = table.assign(**counts, cost=_numbers(table, path, "cost", integer=False))
    for bad, rule in (
        (table["clicks"] > table["views"], "clicks must be at most views"),
        ((table["clicks"] == 0) & (table["cost"] > 0), "cost must be 0 if there are no clicks"),
        (table["arm"].isna() | table[TRIAL].isna(), "arm must be given"),
        (table.duplicated([TRIAL, "day", "arm"]), "each day of an arm must appear only once"),
    ):
        if bad.any():
            raise InputError(f"{path}: row {int(bad.to_numpy().argmax()) + 1}: {rule}")
    return table


def _numbers(table: pd.DataFrame, path: str, name: str, integer: bool) -> pd.Series:
    values = pd.to_numeric(table[name], errors="coerce")
    valid = (values >= 0) & (values < 2**53)
    if integer:
        valid &= values == values.round()
    if not valid.all():
        at = int((~valid).to_numpy().argmax())
        kind = "an integer" if integer else "a number"
        given = table[name].iloc[at]
        raise InputError(f"{path}: row {at + 1}: {name} must be {kind} >= 0, but is {given}")
    return values.astype("int64") if integer else values.astype("float64")


def _arms(
    table: pd.DataFrame, path: str, control: str | None, treatment: str | None
) -> tuple[str, str]:
    known = [str(arm) for arm in table["arm"].unique()]
    for option, name in (("--control", control), ("--treatment", treatment)):
        if name is not None and name not in known:
            raise InputError(f"{option} {name}: {path} has the arms {', '.join(known)}")
    first = control or next((arm for arm in known if arm != treatment), None)
    others = [arm for arm in known if arm != first]
    if first is None or not others or (len(others) > 1 and treatment is None):
        raise InputError(
            f"{path}: must have two arms, or --control and --treatment must name two of its arms; "
            f"it has {', '.join(known) or 'none'}"
        )
    if treatment == first:
        raise InputError(
            f"--treatment and --control must be different arms, but both are {treatment}"
        )
    return first, treatment or others[0]


def _days(rows: pd.DataFrame, arms: tuple[str, str], name: str) -> tuple[Day, ...]:
    days: dict[int, dict[str, Counts]] = {}
    columns = (rows[column].tolist() for column in COLUMNS)
    for day, arm, views, clicks, cost in zip(*columns, strict=True):
        days.setdefault(day, {})[arm] = Counts(views, clicks, cost)
    for day, found in days.items():
        if len(found) < 2:
            raise InputError(
                f"{name}: day {day} must have both arms, but has only {next(iter(found))}"
            )
    return tuple(Day(day, *(days[day][arm] for arm in arms)) for day in sorted(days))
