"""Chooses the damping and the wall of the rule `holdfast` on development seeds.

    .venv/bin/python scripts/results/holdfast_choice.py           # seeds 101-103, 10 CPU minutes
    .venv/bin/python scripts/results/holdfast_choice.py --page    # the page from the table again

Every form meets the other rules of the matrix on its streams, which are shorter here. The same
command resumes after a stop.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pandas as pd

from scripts.bench.regrets.streams import DATA, Size, stream_names
from scripts.results.matrix import RULES
from scripts.results.readme import RESULTS, replace_block
from scripts.results.rule_table import TABLES
from scripts.results.served_bar import OURS, served_bars
from scripts.results.trials import SELECTIONS, RuleTrial, read_result, row_of, run_trials

SEEDS = (101, 102, 103)
SIZE, INSTANCES = Size(cycles=54, events=6_000), 12
TABLE = TABLES / "holdfast-choice.csv"
FORMS: dict[str, dict[str, Any]] = {
    f"damping {damping}, wall {wall}": {"name": OURS, "damping": damping, "wall": float(wall)}
    for damping, wall in ((0.3, 10), (0.5, 10), (0.3, 1), (0.5, 1))
}
OTHERS = {name: RULES[name] for name in ("none", "entropic", "projection", "clippy")}
"""Without l2 and euclidean, to save time."""


def planned() -> list[RuleTrial]:
    """Every form and every other rule, under both selections."""
    return [
        RuleTrial(stream, seed, select, name, rule, SIZE, INSTANCES)
        for seed in SEEDS
        for stream in stream_names(DATA)
        for select in SELECTIONS
        for name, rule in {**FORMS, **OTHERS}.items()
    ]


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block of the results page: a row for each form."""
    present = rows.groupby(["stream", "seed", "select"])["rule"].transform("count")
    rows = rows[present == len(FORMS) + len(OTHERS)]
    yield f"{len(rows)} trials, on the mean of streams:\n"
    heads = (f"{one}: served log-loss against the best other | useful" for one in SELECTIONS)
    yield f"| form | {' | '.join(heads)} |"
    yield "|" + "---|" * (1 + 2 * len(SELECTIONS))
    for form in FORMS:
        cells = (_cell(rows[rows["select"] == select], form) for select in SELECTIONS)
        yield f"| {form} | {' | '.join(cells)} |"
    useful = rows[rows["rule"].isin(OTHERS)].groupby(["select", "rule"])["useful"].mean()
    yield (
        "\nUseful instances of the other rules: "
        + "; ".join(
            f"`{select}` at most {useful[select].max():.1%} ({useful[select].idxmax()})"
            for select in SELECTIONS
        )
        + f". The forms retain at least {rows[rows['rule'].isin(FORMS)]['retained'].min():.1%}."
    )


def _cell(rows: pd.DataFrame, form: str) -> str:
    """How a form serves against the best other rule on the mean of streams, and its useful."""
    against = rows[rows["rule"].isin([form, *OTHERS])].replace({"rule": {form: OURS}})
    bar = served_bars(against)[-1]
    useful = rows[rows["rule"] == form]["useful"].mean()
    interval = f"{bar.behind.low:+.2%} to {bar.behind.high:+.2%}"
    return f"{bar.behind.mean:+.2%} ({interval}), {bar.rival} | {useful:.1%}"


@click.command(help=__doc__.split("\n")[0])
@click.option("--out", default="runs/holdfast-choice", type=click.Path(path_type=Path))
@click.option("--processes", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--page", is_flag=True, help="Run nothing: write the page from the table.")
def main(out: Path, processes: int, page: bool) -> None:
    """Measure what is not measured yet, and write table and page."""
    if not page:
        trials = planned()
        run_trials(trials, out, processes, DATA)
        rows = pd.DataFrame([row_of(trial, read_result(trial, out)) for trial in trials])
        rows.to_csv(TABLE, index=False, float_format="%.6g")
    replace_block(RESULTS, "choice", "\n".join(page_text(pd.read_csv(TABLE))))


if __name__ == "__main__":
    main()
