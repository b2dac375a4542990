"""The retained fraction of every cycle: the paper's first result."""

import pandas as pd

from orchestrator.charts.chart import Axis, Chart, Dots, Level, Line, Panel, numbers, span_of
from orchestrator.report.interval import Estimate, rate_interval, share_difference, share_interval
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.curves import (
    arm_curves,
    cycle_panel,
    first_values,
    smoothing_text,
)
from orchestrator.report.study import Pair, Study
from orchestrator.report.verdict import (
    Finding,
    Statement,
    Verdict,
    above,
    below,
    judged,
    percent,
    points,
)

HEAVY, LIGHT = 0.20, 0.05
"""A heavy loss discards more than 20% of the instances in a cycle, a light one at most 5%."""
OFTEN = 0.10
"""More than one cycle in ten is "often", fewer is "rarely". The paper gives no number."""


def retained(study: Study) -> Section:
    """Curves, shares of cycles with heavy loss, means with intervals, and the verdict."""
    return Section(
        key="retained",
        title="Retained fraction",
        claim="The production algorithm often discards over 20% of its instances in a cycle, the "
        "new one rarely more than a few percent.",
        findings=tuple(_finding(study, run) for run in study.shown),
        charts=(_chart(study),),
        tables=(_table(study),),
        note=f"We read “often” as more than {OFTEN:.0%} of the cycles, “rarely” as fewer than "
        f"that, and “a few percent” as {LIGHT:.0%}: the paper gives no numbers. The retained "
        "fraction counts divergence only (with fewer than 20 instances, one loss is over 5%). "
        "Instances that failed or were late are counted separately. Means are over cycles, with "
        "95% intervals that allow for correlation in time. Differences are computed cycle by "
        "cycle, because the arms share chunks and draws.",
        compares_main_arms=True,
    )


def discards(fraction: pd.Series, more_than: float) -> Estimate:
    """The share of cycles that discard more than this; cycles without a fraction are skipped."""
    series = numbers(fraction)
    lost = 1.0 - series[series == series]
    return rate_interval(lost > more_than + 1e-12)


def gain(pair: Pair) -> Estimate:
    """The retained fraction minus the baseline's, paired by cycle."""
    return share_difference(pair.ours["retained_fraction"], pair.theirs["retained_fraction"])


def _finding(study: Study, run: Run) -> Finding:
    pair = study.main_pair(run)
    if pair is None:
        only = study.of(run, study.baseline_of(run))["retained_fraction"]
        text = (
            f"{study.baseline_of(run)}, the only arm, retains {percent(share_interval(only))} and "
            f"discards over 20% in {percent(discards(only, HEAVY))} of its cycles."
        )
        return Finding(text, Verdict.OPEN, run.name)
    theirs, ours = pair.theirs["retained_fraction"], pair.ours["retained_fraction"]
    often, rarely = discards(theirs, HEAVY), discards(ours, LIGHT)
    better = gain(pair)
    text = (
        f"{pair.baseline} discards over 20% in {percent(often)} of the cycles; {pair.arm} discards "
        f"over 5% in {percent(rarely)}. On average {pair.arm} retains "
        f"{percent(share_interval(ours))} against {percent(share_interval(theirs))}, a difference "
        f"of {points(better)} over {better.count} shared cycles."
    )
    return judged(
        text,
        run.name,
        Statement(f"{pair.baseline} often discards over 20%", above(often, OFTEN)),
        Statement(f"{pair.arm} rarely discards over 5%", below(rarely, OFTEN)),
        Statement(f"{pair.arm} retains more than {pair.baseline}", above(better)),
    )


def _chart(study: Study) -> Chart:
    return Chart(
        "retained",
        "Fraction of instances retained in each cycle",
        f"{smoothing_text(study)} A dot: a cycle that lost more than 20%.",
        tuple(_panel(study, run) for run in study.shown),
    )


def _panel(study: Study, run: Run) -> Panel:
    lines = arm_curves(study, run, "retained_fraction", run.records)
    low, _ = span_of([line.y for line in lines], include=[0.78, *first_values(lines)])
    y = Axis("retained", max(low, -0.02), 1.015, unit="%")
    compared = {study.baseline_of(run), study.challenger_of(run)}
    heavy = (_heavy_losses(line) for line in lines if line.faint and line.name in compared)
    return cycle_panel(study.panel_title(run), lines, y, [Level("20% lost", 1 - HEAVY), *heavy])


def _heavy_losses(line: Line) -> Dots:
    """A dot for each cycle that lost over a fifth: smoothing hides single cycles."""
    lost = line.y < 1 - HEAVY - 1e-12
    texts = tuple(
        f"{line.name} lost {1 - y:.0%} in cycle {x:.0f}"
        for x, y in zip(line.x[lost], line.y[lost], strict=True)
    )
    return Dots(line.name, line.tone, line.x[lost], line.y[lost], texts)


def _table(study: Study) -> ReportTable:
    rows = []
    for run in study.shown:
        base = study.baseline_of(run)
        for arm in run.records:
            frame = study.of(run, arm)
            series = frame["retained_fraction"]
            mean = share_interval(series)
            heavy, light = discards(series, HEAVY), discards(series, LIGHT)
            difference = gain(study.pair(run, arm, base)) if arm != base else None
            rows.append(
                (
                    Cell(run.name),
                    Cell(arm, tone=study.arms.index(arm)),
                    number(len(frame), ",.0f"),
                    Cell(percent(mean, 2), mean.mean),
                    Cell(points(difference, 2), difference.mean) if difference else number(None),
                    Cell(percent(heavy), heavy.mean),
                    Cell(percent(light), light.mean),
                    number(100 * series.min(), ".1f", "%"),
                )
            )
    columns = ("run", "arm", "cycles", "mean retained", "difference from the baseline",
               "cycles losing > 20%", "cycles losing > 5%", "worst cycle")  # fmt: skip
    return ReportTable(
        "Retained fraction by arm", columns, tuple(rows), "In brackets: 95% intervals."
    )
