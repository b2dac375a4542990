"""Panels over cycles: a thin line for the raw series, a bold one for its running mean or median."""

from collections.abc import Callable, Iterable

import pandas as pd

from orchestrator.charts.chart import Axis, Line, Mark, Panel, Tone, numbers, span_of
from orchestrator.report.load import Run
from orchestrator.report.study import Study, running_mean, window_for

Smoother = Callable[[pd.Series, int], pd.Series]


def curve(
    name: str, tone: Tone, series: pd.Series, window: int, smooth: Smoother = running_mean
) -> tuple[Line, Line]:
    """The raw and the smoothed line of a series by cycle."""
    x = numbers(series.index)
    raw = Line(name, tone, x, numbers(series), faint=True)
    return raw, Line(name, tone, x, numbers(smooth(series, window)))


def arm_curves(
    study: Study, run: Run, column: str, arms: Iterable[str], smooth: Smoother = running_mean
) -> list[Line]:
    """Lines of one column of the cycles frame, for each of these arms that has values."""
    window = window_for(run.cycles)
    found = {arm: study.of(run, arm)[column] for arm in arms}
    return [
        line
        for arm, series in found.items()
        if series.notna().any()
        for line in curve(arm, study.arms.index(arm), series, window, smooth)
    ]


def cycle_panel(title: str, lines: Iterable[Line], y: Axis, extra: Iterable[Mark] = ()) -> Panel:
    """A panel over cycles: `extra` marks at the back, then raw lines, then smoothed ones."""
    ordered = sorted(lines, key=lambda line: not line.faint)
    ends = [float(end) for line in ordered if len(line.x) for end in (line.x.min(), line.x.max())]
    first, last = (min(ends), max(ends)) if ends else (0.0, 1.0)
    x = Axis("cycle", first, max(last, first + 1), unit="cycle")
    return Panel(title, x, y, (*extra, *ordered))


def robust_axis(
    label: str, lines: Iterable[Line], log: bool = False, include: Iterable[float] = ()
) -> Axis:
    """An axis that fits the lines but ignores their outliers."""
    low, high = span_of([line.y for line in lines], log, include)
    return Axis(label, low, high, log)


def smoothing_text(study: Study, kind: str = "mean") -> str:
    """A caption that explains the thin and bold lines."""
    windows = sorted({window_for(run.cycles) for run in study.shown})
    lengths = " or ".join(map(str, windows)) or "no"
    return f"Thin: every cycle. Bold: running {kind} over {lengths} cycles."
