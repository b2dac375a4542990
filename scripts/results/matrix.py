"""The matrix: every rule under both selections on the same streams, before any claim.

    .venv/bin/python scripts/results/matrix.py                  # seeds 1-5, about 40 minutes
    .venv/bin/python scripts/results/matrix.py --seeds 101      # a development seed

The streams are those of the regret benchmark. The same command resumes after a stop. The outcome is
one small table, `tables/matrix.csv`, from which `--page` makes the results page again.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from scripts.results.rule_table import COLUMNS, seeds_note, table_command
from scripts.results.served_bar import OURS, bar_table, counted, served_bars
from scripts.results.trials import SELECTIONS

RULES: dict[str, dict[str, Any]] = {
    "l2": {"name": "l2"},
    "none": {"name": "none"},
    "entropic": {"name": "entropic"},
    "euclidean": {"name": "euclidean"},
    "projection": {"name": "projection"},
    "clippy": {"name": "clippy"},
    "holdfast": {"name": "holdfast"},
}
"""Each with its defaults, which were chosen with equal effort. The lam of l2 is tuned with the step
sizes, as a production system does."""


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block of the results page."""
    yield from seeds_note(rows)
    yield "Means over all streams and seeds, without the first quarter of the cycles:\n"
    yield "| selection | rule | served gain | retained | useful | compute lost |"
    yield "|---|---|---|---|---|---|"
    means = rows.groupby(["select", "rule"], sort=False)[list(COLUMNS)].mean()
    for select, rule in means.index:
        yield f"| {select} | {rule} | " + " | ".join(_cells(means.loc[(select, rule)])) + " |"
    yield "\nServed gain of each stream:\n"
    streams = list(dict.fromkeys(rows["stream"]))
    yield "| selection | rule | " + " | ".join(streams) + " |"
    yield "|" + "---|" * (2 + len(streams))
    gains = rows.groupby(["select", "rule", "stream"], sort=False)["gain"].mean()
    for select, rule in means.index:
        cells = (f"{gains[select, rule, stream]:.1%}" for stream in streams)
        yield f"| {select} | {rule} | " + " | ".join(cells) + " |"
    yield ""
    for select in SELECTIONS:
        yield from _bars(rows[rows["select"] == select], select)
    yield from _selection(rows)


def _cells(mean: "pd.Series[float]") -> Iterator[str]:
    yield from (f"{mean[name]:.1%}" for name in ("gain", "retained", "useful", "compute_lost"))


def _bars(rows: pd.DataFrame, select: str) -> Iterator[str]:
    """How `holdfast` stands against the bars that were set for it, stream by stream."""
    means = rows.groupby(["stream", "rule"], sort=False)[["retained", "useful"]].mean()
    missed = []
    for stream in dict.fromkeys(rows["stream"]):
        ours, others = means.loc[stream].loc[OURS], means.loc[stream].drop(OURS)
        if ours["retained"] < 0.999:
            missed.append(f"{stream}: retained {ours['retained']:.2%}, not 99.9%")
        if ours["useful"] < others["useful"].max():
            best = others["useful"].idxmax()
            missed.append(
                f"{stream}: useful {ours['useful']:.1%}, {best} {others['useful'].max():.1%}"
            )
    yield (
        f"The bars of `holdfast` with `{select}`. Retained at least 99.9%, and useful instances at "
        "least as many as those of any other rule: "
        + ("missed on\n" if missed else "met on every stream.")
    )
    yield from (f"- {one}" for one in missed)
    bars = served_bars(rows)
    yield f"\nServed log-loss within 0.1% of the best other rule: {counted(bars)}.\n"
    yield from bar_table(bars)
    yield ""


def _selection(rows: pd.DataFrame) -> Iterator[str]:
    """How much the rule matters under each selection, and how much the selection matters."""
    gains = rows.groupby(["select", "rule"])["gain"].mean()
    for select in SELECTIONS:
        own = gains[select]
        yield (
            f"With `{select}`, rules serve between {own.min():.1%} ({own.idxmin()}) and "
            f"{own.max():.1%} ({own.idxmax()})."
        )
    moved = gains["lineages"] - gains["champion"]
    yield (
        f"Lines instead of a broadcast champion add {100 * moved.min():+.1f} "
        f"({moved.idxmin()}) to {100 * moved.max():+.1f} ({moved.idxmax()}) points."
    )


main = table_command("matrix", RULES, page_text)

if __name__ == "__main__":
    main()
