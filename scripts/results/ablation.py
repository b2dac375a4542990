"""What each part of the rule `holdfast` is worth: all eight combinations of its three parts.

    .venv/bin/python scripts/results/ablation.py                  # seeds 1-3
    .venv/bin/python scripts/results/ablation.py --seeds 101      # a development seed

Dual ascent alone is `entropic` but for AdaGrad's sums, which leave out the penalty; nothing at all
is `none`. Streams and searches are those of the matrix. The same command resumes after a stop;
`--page` makes the results page from the table again.
"""

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click
import pandas as pd

from scripts.bench.regrets.streams import DATA, Size, stream_names
from scripts.results.matrix import COLUMNS, QUICK, REPORT
from scripts.results.readme import RESULTS, replace_block
from scripts.results.reproduce import Seeds
from scripts.results.trials import SELECTIONS, RuleTrial, read_result, row_of, run_trials

TABLE = Path(__file__).with_name("tables") / "ablation.csv"
OFF: dict[str, dict[str, float]] = {
    "dual ascent": {"dual_step": 1e-20, "mu0": 1e-30, "mu_floor": 0.0},
    "damping": {"damping": 0.0},
    "wall": {"wall": 1e30},
}
"""The parts of the rule, and the parameters that switch each of them off."""


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of the parts by name, and its rule."""
    for parts in product((False, True), repeat=len(OFF)):
        on = [part for part, there in zip(OFF, parts, strict=True) if there]
        without = {key: value for part in OFF if part not in on for key, value in OFF[part].items()}
        yield " + ".join(on) or "nothing", {"name": "holdfast", **without}


@click.command()
@click.option("--out", default="runs/ablation", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the results of single trials.")  # fmt: skip
@click.option("--seeds", default="1-3", show_default=True, type=Seeds(), help="Such as 1-3 or 101.")
@click.option("--data", default=DATA, type=click.Path(path_type=Path),
              help="Folder of `holdfast data fetch movielens-100k`.")  # fmt: skip
@click.option("--processes", default=os.cpu_count() or 1, show_default=True,
              type=click.IntRange(min=1), help="Streams at the same time.")  # fmt: skip
@click.option("--quick", is_flag=True, help="Short streams, to see that it works: only prints.")
@click.option("--page", is_flag=True, help="Run nothing: write the page from the table.")
def main(
    out: Path,
    seeds: tuple[int, ...],
    data: Path,
    processes: int,
    quick: bool,
    page: bool,
) -> None:
    """Measure every combination of the parts, and write the table; resumable."""
    if not page:
        trials = planned(stream_names(data), seeds, QUICK if quick else Size())
        run_trials(trials, out, processes, data)
        rows = pd.DataFrame([row_of(trial, read_result(trial, out)) for trial in trials])
        if quick:
            click.echo("\n".join(page_text(rows)))
            return
        rows.to_csv(TABLE, index=False, float_format="%.6g")
    text = "\n".join(page_text(pd.read_csv(TABLE)))
    click.echo(text)
    replace_block(RESULTS, "ablation", text)


def planned(streams: tuple[str, ...], seeds: tuple[int, ...], size: Size) -> list[RuleTrial]:
    """All trials, stream by stream."""
    return [
        RuleTrial(stream, seed, select, name, rule, size)
        for stream in streams
        for seed in seeds
        for select in SELECTIONS
        for name, rule in variants()
    ]


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block of the results page."""
    seeds = sorted(set(rows["seed"]))
    streams = ", ".join(dict.fromkeys(rows["stream"]))
    if tuple(seeds) != REPORT:
        yield f"*From development seeds ({', '.join(map(str, seeds))}): not a result yet.*\n"
    yield f"Means over {streams}, without the first quarter of the cycles:\n"
    columns = " | ".join(f"{select}: served gain | retained | useful" for select in SELECTIONS)
    yield f"| parts | {columns} |"
    yield "|" + "---|" * (1 + 3 * len(SELECTIONS))
    means = rows.groupby(["rule", "select"], sort=False)[list(COLUMNS)].mean()
    for parts in dict.fromkeys(rows["rule"]):
        cells = (
            f"{means.loc[(parts, select), name]:.1%}"
            for select in SELECTIONS
            for name in ("gain", "retained", "useful")
        )
        yield f"| {parts} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
