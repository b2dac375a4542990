"""Daily counts of two arms: what a trial yields, and what anybody's csv may hold."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from divergence.errors import InputError

COLUMNS = ("day", "arm", "views", "clicks", "cost")
TRIAL = "trial"
"""An optional column that tells repetitions of the same experiment apart."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Ad views, clicks on them, and what the clicks cost in all."""

    views: int
    clicks: int
    cost: float

    @property
    def ctr(self) -> float:
        """Clicks a view."""
        return self.clicks / self.views if self.views else math.nan

    @property
    def cpm(self) -> float:
        """Cost of a thousand views."""
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
        """All days of the control and of the treatment."""
        return total(d.control for d in self.days), total(d.treatment for d in self.days)


@dataclass
class InstanceCounts:
    """Instances over all cycles."""

    launched: int = 0
    diverged: int = 0

    @property
    def lost(self) -> float:
        """The share that diverged."""
        return self.diverged / self.launched if self.launched else 0.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A trial's counts, and how many instances each arm lost on the way."""

    trial: Trial
    tallies: tuple[InstanceCounts, InstanceCounts]


def total(counts: Iterable[Counts]) -> Counts:
    """All of them together."""
    given = list(counts)
    return Counts(
        sum(c.views for c in given), sum(c.clicks for c in given), math.fsum(c.cost for c in given)
    )


def trials_table(trials: Sequence[Trial]) -> pd.DataFrame:
    """One row for each trial, day and arm: what `read_counts` reads."""
    rows = [
        (trial.name, day.day, arm, counts.views, counts.clicks, counts.cost)
        for trial in trials
        for day in trial.days
        for arm, counts in ((trial.control, day.control), (trial.treatment, day.treatment))
    ]
    return pd.DataFrame(rows, columns=[TRIAL, *COLUMNS])


def read_counts(path: str, control: str | None = None, treatment: str | None = None) -> list[Trial]:
    """The trials in a csv with the columns day, arm, views, clicks, cost and, if need be, trial.

    Of arms that are not named the control is the one that comes first in the file.
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
        raise InputError(f"{path}: is no csv: {' '.join(str(error).split())}") from None
    missing = [name for name in COLUMNS if name not in table.columns]
    if missing:
        raise InputError(
            f"{path}: needs the columns {', '.join(COLUMNS)}, but has no {', '.join(missing)}"
        )
    if TRIAL not in table.columns:
        table[TRIAL] = "all"
    whole = {name: _numbers(table, path, name, whole=True) for name in ("day", "views", "clicks")}
    table = table.assign(**whole, cost=_numbers(table, path, "cost", whole=False))
    for bad, rule in (
        (table["clicks"] > table["views"], "clicks must be at most views"),
        ((table["clicks"] == 0) & (table["cost"] > 0), "cost must be 0 where nobody clicked"),
        (table["arm"].isna() | table[TRIAL].isna(), "arm must be given"),
        (table.duplicated([TRIAL, "day", "arm"]), "a day of an arm must be given once"),
    ):
        if bad.any():
            raise InputError(f"{path}: row {int(bad.to_numpy().argmax()) + 1}: {rule}")
    return table


def _numbers(table: pd.DataFrame, path: str, name: str, whole: bool) -> pd.Series:
    values = pd.to_numeric(table[name], errors="coerce")
    sound = (values >= 0) & (values < 2**53)
    if whole:
        sound &= values == values.round()
    if not sound.all():
        at = int((~sound).to_numpy().argmax())
        kind = "a whole number" if whole else "a number"
        given = table[name].iloc[at]
        raise InputError(f"{path}: row {at + 1}: {name} must be {kind} >= 0, but is {given}")
    return values.astype("int64") if whole else values.astype("float64")


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
            f"{path}: must have two arms, or --control and --treatment name two of them; it has "
            f"{', '.join(known) or 'none'}"
        )
    if treatment == first:
        raise InputError(f"--treatment must be another arm than --control, but is {treatment}")
    return first, treatment or others[0]


def _days(rows: pd.DataFrame, arms: tuple[str, str], name: str) -> tuple[Day, ...]:
    days: dict[int, dict[str, Counts]] = {}
    columns = (rows[column].tolist() for column in COLUMNS)
    for day, arm, views, clicks, cost in zip(*columns, strict=True):
        days.setdefault(day, {})[arm] = Counts(views, clicks, cost)
    for day, found in days.items():
        if len(found) < 2:
            raise InputError(
                f"{name}: day {day} has {next(iter(found))} alone, but needs both arms"
            )
    return tuple(Day(day, *(days[day][arm] for arm in arms)) for day in sorted(days))
