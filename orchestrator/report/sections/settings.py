"""The champion's settings over time, and where in the search space instances diverge."""

import numpy as np
import pandas as pd

from orchestrator.charts.chart import Axis, Cells, Chart, Dots, Line, Panel, numbers, span_of
from orchestrator.config.schema import LineagesSelect
from orchestrator.report.frames import OTHERS
from orchestrator.report.interval import MIN_CYCLES
from orchestrator.report.load import Run
from orchestrator.report.section import Section
from orchestrator.report.sections.curves import curve, cycle_panel, robust_axis, smoothing_text
from orchestrator.report.study import (
    STEPS,
    Study,
    running_median,
    step_columns,
    step_names,
    window_for,
)
from orchestrator.report.verdict import Finding, Verdict, holds
from trainer.setting import PARAMETERS

STEADY = 2.0
"""Up to this factor between a champion's high and low eta0 counts as no change."""
OF_LINES = (
    "The paper's claim is about a search that draws all settings again in each cycle. Here a line "
    "keeps its setting, so there is no verdict."
)
BINS = 18
MAX_DOTS = 400


def settings(study: Study) -> Section:
    """Settings by cycle, and maps of the share of instances that diverged."""
    return Section(
        key="settings",
        title="Settings that win, and settings that diverge",
        claim="The best hyper-parameters change over time, sometimes significantly over short "
        "periods.",
        findings=tuple(_finding(study, run) for run in study.shown),
        charts=(_champions(study), _maps(study)),
        note=f"We read this as: the champion's step size varies by more than {STEADY:g} times "
        "between its 10th and 90th percentile. A new winner does not prove that the best setting "
        "moved: among settings that are about equally good, chance picks one.",
    )


def _finding(study: Study, run: Run) -> Finding:
    arm = study.baseline_of(run)
    column = step_columns(run)[0]
    steps = study.of(run, arm).get(column, pd.Series(dtype=float)).dropna()
    of_lines = isinstance(run.config.search.select, LineagesSelect)
    if len(steps) < MIN_CYCLES:
        few = f"{arm} has champions of {len(steps)} cycles; a verdict takes {MIN_CYCLES}."
        return Finding(few, None if of_lines else Verdict.OPEN, run.name)
    low, high = steps.quantile((0.1, 0.9))
    jumps = np.abs(np.diff(np.log(steps))) > np.log(STEADY)
    text = (
        f"The {step_names(run)[0]} of {arm}'s champion lies between {low:.3g} and {high:.3g} in "
        f"80% of the cycles, a factor of {high / low:.1f}, and moves by more than {STEADY:g} times "
        f"in {jumps.mean():.0%} of the steps from one cycle to the next."
    )
    if of_lines:
        return Finding(f"{text} {OF_LINES}", None, run.name)
    return Finding(text, holds(bool(high / low > STEADY)), run.name)


def _champions(study: Study) -> Chart:
    panels = [
        panel
        for run in study.shown
        for name in (*PARAMETERS, *(c for c in study.cycles.columns if c.startswith(OTHERS)))
        if (panel := _setting_panel(study, run, name))
    ]
    return Chart(
        "champion-settings",
        "The champion's settings over time",
        smoothing_text(study, "median"),
        tuple(panels),
        wide=False,
    )


def _setting_panel(study: Study, run: Run, name: str) -> Panel | None:
    lines: list[Line] = []
    for arm in run.records:
        series = study.of(run, arm)[name]
        if series.notna().any():
            tone = study.arms.index(arm)
            lines += curve(arm, tone, series, window_for(run.cycles), running_median)
    values = np.concatenate([line.y for line in lines]) if lines else np.zeros(0)
    known = values[np.isfinite(values)]
    if len(known) == 0 or (known == known[0]).all():
        return None
    log = bool((known > 0).all()) and name != "beta"
    return cycle_panel(study.panel_title(run, name), lines, robust_axis(name, lines, log))


def _maps(study: Study) -> Chart:
    return Chart(
        "where-it-diverges",
        "Where in the search space instances diverge",
        "Darker cells lost a larger share of the instances tried there. Dots are champions.",
        tuple(
            _map(study, run, arm)
            for run in study.shown
            if len(step_columns(run)) > 1 and {*step_columns(run)} <= {*study.instances.columns}
            for arm in run.records
        ),
        wide=False,
    )


def _map(study: Study, run: Run, arm: str) -> Panel:
    rows = study.instances_of(run, arm)
    mine = rows[rows["status"].isin(["retained", "diverged"])]
    everyone = [study.instances_of(run, other) for other in run.records]
    x, y = _axes(run)
    x_span = span_of([one[x] for one in everyone], log=True)
    y_span = span_of([one[y] for one in everyone], log=y != "beta")
    won = mine[mine["won"]]
    won = won.iloc[:: max(1, len(won) // MAX_DOTS)]
    texts = tuple(f"champion of cycle {cycle}" for cycle in won["cycle"])
    dots = Dots("champions", study.arms.index(arm), numbers(won[x]), numbers(won[y]), texts)
    return Panel(
        study.panel_title(run, arm),
        Axis(x, *x_span, log=True),
        Axis(y, *y_span, log=y != "beta"),
        (cells_of(mine, x_span, y_span, (x, y)), dots),
    )


def _text(column: str, value: float) -> str:
    return f"{value:.2f}" if column == "beta" else f"{value:.3g}"


def _axes(run: Run) -> tuple[str, str]:
    """The columns of a map: the step size, and beta or the second parameter of a trainer."""
    names = step_columns(run)
    return names[0], names[2] if names == STEPS else names[1]


def cells_of(
    rows: pd.DataFrame,
    x_span: tuple[float, float],
    y_span: tuple[float, float],
    names: tuple[str, str] = ("eta0", "beta"),
) -> Cells:
    """The share that diverged in each cell of a grid over two columns; no empty cells.

    Both are on a log scale, but for beta.
    """
    x, y = names
    xs = np.geomspace(*x_span, BINS + 1)
    ys = (np.linspace if y == "beta" else np.geomspace)(*y_span, BINS + 1)
    i = np.clip(np.searchsorted(xs, numbers(rows[x]), "right") - 1, 0, BINS - 1)
    j = np.clip(np.searchsorted(ys, numbers(rows[y]), "right") - 1, 0, BINS - 1)
    tried = np.bincount(i * BINS + j, minlength=BINS * BINS)
    lost = np.bincount((i * BINS + j)[(rows["status"] == "diverged").to_numpy()],
                       minlength=BINS * BINS)  # fmt: skip
    at = np.flatnonzero(tried)
    a, b = at // BINS, at % BINS
    bounds = np.column_stack([xs[a], xs[a + 1], ys[b], ys[b + 1]]).reshape(-1, 4)
    texts = tuple(
        f"{x} {xs[p]:.3g} to {xs[p + 1]:.3g}, {y} {_text(y, ys[q])} to {_text(y, ys[q + 1])}: "
        f"{lost[n]:,} of {tried[n]:,} diverged"
        for n, p, q in zip(at, a, b, strict=True)
    )
    return Cells("share diverged", bounds, lost[at] / tried[at], texts)
