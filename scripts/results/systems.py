"""Three systems on the same events at the same cost: production, the paper's method, Holdfast.

    .venv/bin/python scripts/results/systems.py            # seeds 1-3; the same command resumes
    .venv/bin/python scripts/results/systems.py --page     # from the committed table alone

Each trains 16 instances a cycle on the market of configs/paper-lift.yaml for a week. The outcome is
one small table, from which the README's first figure is made.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pandas as pd

from orchestrator.charts.chart import Axis, Chart, Line, Panel, numbers, span_of
from orchestrator.charts.picture import svg
from orchestrator.report.frames import cycles_frame
from orchestrator.report.interval import mean_interval
from orchestrator.report.load import load_runs
from orchestrator.report.study import running_mean
from scripts.results.experiments import Experiment, PlannedRun
from scripts.results.readme import RESULTS, replace_block
from scripts.results.reproduce import Seeds
from scripts.results.running import Forecast, check_configs, event_seconds, run_all

WEEK = "cycles=672"
SYSTEMS = (
    Experiment(
        "greedy",
        "paper-lift",
        (WEEK, "arms=[{name: production, rule: l2}, {name: entropic, rule: entropic}]"),
    ),
    Experiment(
        "lines",
        "paper-lift",
        (
            WEEK,
            "search={instances: 16, select: lineages}",
            "serve.mean_of=4",
            "arms=[{name: holdfast, rule: holdfast}]",
        ),
    ),
)
NAMES = {
    "production": "production: l2, champion",
    "entropic": "the paper: entropic, champion",
    "holdfast": "Holdfast: holdfast, lineages",
}
TABLE = Path(__file__).with_name("tables") / "systems.csv"
PICTURE = Path(__file__).with_name("systems-gain.svg")
WARM_UP = 48
"""Cycles of half a day that do not count: all models still learn the basics."""
SMOOTH = 24
CORES = os.cpu_count() or 1


@click.command()
@click.option("--out", default="runs/systems", show_default=True, type=click.Path(path_type=Path),
              help="Folder of the runs.")  # fmt: skip
@click.option("--seeds", default="1-3", show_default=True, type=Seeds(), help="Such as 1-3 or 101.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Change every run, to try things out; nothing is written.")  # fmt: skip
@click.option("--page", is_flag=True, help="Run nothing: make figure and page from the table.")
def main(out: Path, seeds: tuple[int, ...], sets: tuple[str, ...], page: bool) -> None:
    """Run the three systems, then write their table, figure and page; resumable."""
    if not page:
        runs = [run for one in SYSTEMS for run in one.runs(seeds, sets)]
        rows = measured(runs, out.resolve())
        if sets:
            click.echo("\n".join(page_text(rows)))
            return
        rows.to_csv(TABLE, index=False, float_format="%.6g", lineterminator="\n")
    rows = pd.read_csv(TABLE)
    PICTURE.write_bytes(svg(gain_chart(rows)))
    text = "\n".join(page_text(rows))
    click.echo(text)
    replace_block(RESULTS, "systems", text)


def measured(runs: list[PlannedRun], out: Path) -> pd.DataFrame:
    """Run what is not finished; the served log-loss of every system, seed and cycle."""
    check_configs(runs, out)
    run_all(Forecast(runs, out, 1, CORES, event_seconds()))
    frame = cycles_frame(load_runs([str(out / run.name) for run in runs]).runs)
    served = frame[frame["served_logloss"].notna()]
    return served[["seed", "arm", "cycle", "served_logloss", "constant_logloss"]]


def gain_chart(rows: pd.DataFrame) -> Chart:
    """The served gain over time, of the first seed."""
    first = rows[rows["seed"] == rows["seed"].min()]
    lines = []
    for tone, (arm, name) in enumerate(NAMES.items()):
        own = first[first["arm"] == arm].set_index("cycle").sort_index()
        smooth = (running_mean(own[column], SMOOTH) for column in
                  ("served_logloss", "constant_logloss"))  # fmt: skip
        served, constant = smooth
        days, gain = numbers(own.index) / 96, numbers(1 - served / constant)
        lines.append(Line(name, tone, days, gain))
    low, high = span_of([line.y[WARM_UP:] for line in lines])
    return Chart(
        "systems",
        "What users get: served log-loss below that of a constant CTR",
        f"Higher is better. Means over {SMOOTH} cycles; seed {first['seed'].iloc[0]}.",
        (
            Panel(
                "",
                Axis("day", 0.0, float(rows["cycle"].max() + 1) / 96, unit="count"),
                Axis("gain", low, high, unit="%"),
                tuple(lines),
            ),
        ),
    )


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block of the results page."""
    title = "Served gain of three systems over a week"
    yield f"![{title}]({PICTURE.name})\n"
    seeds = sorted(set(rows["seed"]))
    yield "| system | " + " | ".join(f"seed {seed}" for seed in seeds) + " | lift over production |"
    yield "|---|" + "---|" * (len(seeds) + 1)
    settled = rows[rows["cycle"] >= WARM_UP]
    for arm, name in NAMES.items():
        own = settled[settled["arm"] == arm].groupby("seed")[["served_logloss", "constant_logloss"]]
        means = own.mean()
        gains = 1 - means["served_logloss"] / means["constant_logloss"]
        cells = [f"{gains[seed]:.1%}" for seed in seeds]
        yield f"| {name} | " + " | ".join(cells) + f" | {_lifts(settled, arm)} |"
    yield (
        "\nServed gain: how far the served log-loss lies below that of a constant CTR, without the "
        f"first {WARM_UP} cycles. Lift: how much lower the served log-loss is than that of "
        "production, in percent, with 95% intervals over the cycles of each seed."
    )


def _lifts(rows: pd.DataFrame, arm: str) -> str:
    if arm == "production":
        return "-"
    texts = []
    for _, own in rows.groupby("seed"):
        wide = own.pivot(index="cycle", columns="arm", values="served_logloss").dropna()
        found = mean_interval(100 * (wide["production"] - wide[arm]) / wide["production"])
        texts.append(f"{found.mean:+.1f} ({found.low:+.1f} to {found.high:+.1f})")
    return ", ".join(texts)


if __name__ == "__main__":
    main()
