"""What holds a two-tower model in PyTorch at step sizes that make it diverge, on MovieLens 100K.

    .venv/bin/holdfast data fetch movielens-100k
    scripts/setup.sh --torch
    .venv/bin/python scripts/results/torch_movielens.py                 # seeds 1-3
    .venv/bin/python scripts/results/torch_movielens.py --seeds 101     # prints only

Writes two tables, the picture and the block of divergence/torch/README.md; `--page` makes the last
two from the tables again.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import click
import numpy as np
import pandas as pd
import torch

from orchestrator.charts.chart import Axis, Chart, Level, Line, Panel, numbers
from orchestrator.charts.picture import svg
from scripts.results.readme import ROOT, replace_block
from scripts.results.reproduce import Seeds
from scripts.results.two_tower import (
    EPOCHS,
    TAU,
    Ratings,
    TowerResult,
    TowerTrial,
    read_ratings,
    train,
)

HERE = Path(__file__).parent
TABLE, CURVES = HERE / "tables" / "torch-movielens.csv", HERE / "tables" / "torch-largest.csv"
FIGURE, PAGE = "scripts/results/torch-movielens.svg", "divergence/torch/README.md"
REPORT = (1, 2, 3)
STEP_SIZES = {"Adagrad": (0.1, 1.0, 10.0), "Adam": (0.01, 0.1, 1.0)}
"""The best power of ten without a rule on seed 101, ten times and a hundred times that."""
RULES = ("none", "max_norm", "entropic", "euclidean", "holdfast")
EVERY = 5
"""Steps between two points of a curve."""


@click.command()
@click.option("--data", default="data/movielens-100k.parquet", show_default=True,
              type=click.Path(path_type=Path),
              help="The file of `holdfast data fetch`.")  # fmt: skip
@click.option("--seeds", default="1-3", show_default=True, type=Seeds(), help="Such as 1-3 or 101.")
@click.option("--epochs", default=EPOCHS, show_default=True, type=click.IntRange(min=1),
              help="Another number than this only prints.")  # fmt: skip
@click.option("--page", is_flag=True, help="Train nothing: write picture and page from the tables.")
def main(data: Path, seeds: tuple[int, ...], epochs: int, page: bool) -> None:
    """Train every combination, print the table, write picture and page."""
    if not page:
        if not data.exists():
            raise click.UsageError(f"{data} does not exist: holdfast data fetch movielens-100k")
        rows, curves = measured(read_ratings(data), seeds, epochs)
        if seeds != REPORT or epochs != EPOCHS:
            click.echo("\n".join(page_text(rows)))
            return
        rows.to_csv(TABLE, index=False, float_format="%.6g")
        curves.to_csv(CURVES, index=False, float_format="%.4g")
    text = "\n".join(page_text(pd.read_csv(TABLE)))
    click.echo(text)
    (ROOT / FIGURE).write_bytes(svg(chart(pd.read_csv(TABLE), pd.read_csv(CURVES))))
    replace_block(PAGE, "movielens", text)


def measured(
    ratings: Ratings, seeds: tuple[int, ...], epochs: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A row for each trial, and how the largest entry grew in the first seed's hottest ones."""
    torch.set_num_threads(1)
    rows, curves = [], []
    for seed, (optimizer, sizes), rule in product(seeds, STEP_SIZES.items(), RULES):
        for size in sizes:
            trial = TowerTrial(optimizer, size, rule, seed)
            result = train(ratings, trial, epochs)
            rows.append(_row(trial, result))
            click.echo(" ".join(f"{key}={value}" for key, value in rows[-1].items()), err=True)
            if seed == seeds[0] and size == sizes[-1]:
                curves += [
                    {"optimizer": optimizer, "rule": rule, "step": n, "largest": largest}
                    for n, largest in enumerate(result.largest, 1)
                    if n <= EVERY or n % EVERY == 0 or n == result.diverged_at
                ]
    return pd.DataFrame(rows), pd.DataFrame(curves)


def _row(trial: TowerTrial, result: TowerResult) -> dict[str, object]:
    return {
        "optimizer": trial.optimizer,
        "step_size": trial.step_size,
        "rule": trial.rule,
        "seed": trial.seed,
        "constant": result.constant,
        "diverged_at": result.diverged_at,
        "best": min(result.losses, default=np.nan),
        "last": np.nan if result.diverged_at else result.losses[-1],
        "largest": max(result.largest),
    }


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block: for each optimizer, step sizes by rules."""
    seeds = sorted(set(rows["seed"]))
    if tuple(seeds) != REPORT:
        yield f"*From development seeds ({', '.join(map(str, seeds))}): not a result yet.*\n"
    yield f"![The largest entry of two towers, and their test log-loss](../../{FIGURE})\n"
    yield (
        f"Best test log-loss of an epoch, mean over seeds {', '.join(map(str, seeds))}; a constant "
        f"has {rows['constant'].mean():.3f}. *Diverged*: an entry reached {TAU:g} at this step, "
        "and training stopped there.\n"
    )
    for optimizer in dict.fromkeys(rows["optimizer"]):
        here = rows[rows["optimizer"] == optimizer]
        sizes = sorted(set(here["step_size"]))
        yield f"| {optimizer}, step size | " + " | ".join(f"{size:g}" for size in sizes) + " |"
        yield "|" + "---|" * (1 + len(sizes))
        for rule in dict.fromkeys(here["rule"]):
            own = here[here["rule"] == rule]
            cells = (_cell(own[own["step_size"] == size]) for size in sizes)
            yield f"| {rule} | " + " | ".join(cells) + " |"
        yield ""


def _cell(trials: pd.DataFrame) -> str:
    lost = trials["diverged_at"].dropna().astype(int)
    if lost.empty:
        return f"{trials['best'].mean():.4f}"
    return "diverged at " + ", ".join(map(str, lost)) + f" ({len(lost)} of {len(trials)})"


def chart(rows: pd.DataFrame, curves: pd.DataFrame) -> Chart:
    """Above, how the largest entry grows at the hottest setting; below, log-loss by step size."""
    above = tuple(_growth(name, curves[curves["optimizer"] == name]) for name in STEP_SIZES)
    below = tuple(_losses(name, rows[rows["optimizer"] == name]) for name in STEP_SIZES)
    caption = (
        "Two towers on MovieLens 100K. A line that ends has diverged. "
        "Dashed: tau above, the log-loss of a constant below."
    )
    return Chart("torch-movielens", caption, caption, above + below, wide=False)


def _growth(optimizer: str, curves: pd.DataFrame) -> Panel:
    lines = tuple(
        Line(rule, tone, numbers(own["step"]), numbers(own["largest"]))
        for tone, rule in enumerate(RULES)
        for own in [curves[curves["rule"] == rule]]
    )
    hottest = STEP_SIZES[optimizer][-1]
    x = Axis("step", 1, max(2, curves["step"].max()), log=True)
    y = Axis("largest |entry|", 0.3, 60, log=True)
    tau = Level(f"tau = {TAU:g}", TAU)
    return Panel(f"{optimizer}, step size {hottest:g}, first seed", x, y, (*lines, tau))


def _losses(optimizer: str, rows: pd.DataFrame) -> Panel:
    kept = rows.copy()
    kept.loc[kept["diverged_at"].notna(), "best"] = np.nan
    means = kept.groupby(["rule", "step_size"])["best"].agg(lambda s: s.mean(skipna=False))
    sizes = STEP_SIZES[optimizer]
    lines = tuple(
        Line(rule, tone, numbers(sizes), numbers([means[rule, s] for s in sizes]), dots=True)
        for tone, rule in enumerate(RULES)
    )
    x = Axis("step size", sizes[0] / 1.5, sizes[-1] * 1.5, log=True)
    y = Axis("best test log-loss", 0.54, 0.94)
    level = Level("a constant", float(rows["constant"].mean()))
    return Panel(f"{optimizer}: log-loss of what did not diverge", x, y, (*lines, level))


if __name__ == "__main__":
    main()
