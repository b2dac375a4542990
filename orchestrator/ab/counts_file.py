"""Reads daily counts from a csv file. All mistakes are reported, one line each."""

from collections.abc import Iterator

import pandas as pd

from divergence.errors import InputError
from orchestrator.ab.counts import COLUMNS, TRIAL, Counts, Day, Trial
from orchestrator.validation.errors import cut

MOST_SHOWN = 50
"""Mistakes that are listed; of more, only the number."""
RULES = {
    "day": "an integer >= 0",
    "views": "an integer >= 0",
    "clicks": "an integer >= 0",
    "cost": "a number >= 0",
}


def read_counts(path: str, control: str | None = None, treatment: str | None = None) -> list[Trial]:
    """The trials in a csv with the columns day, arm, views, clicks, cost and, optionally, trial.

    If the arms are not named, the control is the arm that comes first in the file.
    """
    texts = _texts(path)
    table = _parsed(texts)
    found = [f"{path}: {text}" for text in _mistakes(texts, table)]
    arms = None
    if "arm" in table and not table["arm"].isna().any():
        arms = _arms(table, path, control, treatment, found)
    if arms is not None and "day" in table and not table["day"].isna().any():
        table = table[table["arm"].isin(arms)]
        found += [f"{path}: {text}" for text in _days_without_an_arm(table)]
    if found or arms is None:
        more = [f"{path}: {len(found) - MOST_SHOWN} more mistakes"] * (len(found) > MOST_SHOWN)
        raise InputError("\n".join(found[:MOST_SHOWN] + more))
    return [
        Trial(str(name), *arms, _days(rows, arms))
        for name, rows in table.groupby(TRIAL, sort=False)
    ]


def _texts(path: str) -> pd.DataFrame:
    """The file as it is written; an empty field is NaN."""
    try:
        table = pd.read_csv(
            path, dtype=str, skipinitialspace=True, keep_default_na=False, na_values=[""]
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a csv file: {' '.join(str(error).split())}") from None
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(f"{path}: not a csv file: its rows have more fields than its header")
    return table if TRIAL in table else table.assign(**{TRIAL: "all"})


def _parsed(texts: pd.DataFrame) -> pd.DataFrame:
    """The table with its numbers as floats, NaN where they are not valid."""
    table = texts.copy()
    for name in RULES.keys() & set(texts.columns):
        values = pd.to_numeric(texts[name], errors="coerce").astype("float64")
        valid = (values >= 0) & (values < 2**53)
        if name != "cost":
            valid &= values == values.round()
        table[name] = values.where(valid)
    return table


def _mistakes(texts: pd.DataFrame, table: pd.DataFrame) -> Iterator[str]:
    """What is wrong with the columns, then with each row."""
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        yield f"needs the columns {', '.join(COLUMNS)}; missing: {', '.join(missing)}"
    rows: list[tuple[int, str]] = []
    for name, rule in RULES.items():
        if name in table:
            for row in table.index[table[name].isna()]:
                given = texts[name][row]
                value = "empty" if pd.isna(given) else cut(given)
                rows.append((row, f"{name} must be {rule}, but is {value}"))
    for name in ("arm", TRIAL):
        if name in table:
            rows += [(row, f"{name} must be given") for row in table.index[table[name].isna()]]
    if not missing:
        known = table[["day", "arm", TRIAL]].notna().all(axis=1)
        for bad, rule in (
            (table["clicks"] > table["views"], "clicks must be at most views"),
            ((table["clicks"] == 0) & (table["cost"] > 0), "cost must be 0 if there are no clicks"),
            (
                known & table.duplicated([TRIAL, "day", "arm"]),
                "each day of an arm must appear only once",
            ),
        ):
            rows += [(row, rule) for row in table.index[bad]]
    yield from (f"row {row + 1}: {text}" for row, text in sorted(rows, key=lambda pair: pair[0]))


def _arms(
    table: pd.DataFrame, path: str, control: str | None, treatment: str | None, found: list[str]
) -> tuple[str, str] | None:
    """The control and the treatment; None, and more mistakes in `found`, if they are not known."""
    known = [str(arm) for arm in table["arm"].unique()]
    unknown = [
        f"{option} {name}: {path} has the arms {', '.join(known)}"
        for option, name in (("--control", control), ("--treatment", treatment))
        if name is not None and name not in known
    ]
    found += unknown
    if unknown:
        return None
    first = control or next((arm for arm in known if arm != treatment), None)
    others = [arm for arm in known if arm != first]
    if first is None or not others or (len(others) > 1 and treatment is None):
        found.append(
            f"{path}: must have two arms, or --control and --treatment must name two of its arms; "
            f"it has {', '.join(known) or 'none'}"
        )
        return None
    if treatment == first:
        found.append(f"--treatment and --control must be different arms, but both are {treatment}")
        return None
    return first, treatment or others[0]


def _days_without_an_arm(table: pd.DataFrame) -> Iterator[str]:
    for (trial, day), rows in table.groupby([TRIAL, "day"], sort=False):
        arms = rows["arm"].unique()
        if len(arms) < 2:
            yield f"{TRIAL} {trial}: day {day:.0f} must have both arms, but has only {arms[0]}"


def _days(rows: pd.DataFrame, arms: tuple[str, str]) -> tuple[Day, ...]:
    days: dict[int, dict[str, Counts]] = {}
    columns = (rows[column].tolist() for column in COLUMNS)
    for day, arm, views, clicks, cost in zip(*columns, strict=True):
        days.setdefault(int(day), {})[arm] = Counts(int(views), int(clicks), cost)
    return tuple(Day(day, days[day][arms[0]], days[day][arms[1]]) for day in sorted(days))
