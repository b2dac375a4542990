"""Panels over cycles: a thin line for the raw series, a bold one for its running mean or median."""

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd

from orchestrator.charts.chart import HUGE, Axis, Line, Mark, Panel, Tone, numbers, span_of
from orchestrator.report.load import Run
from orchestrator.report.study import Study, running_mean, window_for

FEW = 12
"""Up to this many cycles are also drawn as dots: one cycle alone has no curve."""
Smoother = Callable[[pd.Series, int], pd.Series]


def curve(
    name: str, tone: Tone, series: pd.Series, window: int, smooth: Smoother = running_mean
) -> tuple[Line, Line]:
    """The raw and the smoothed line of a series by cycle; a short series has dots.

    The smoothed line begins and ends where the series does.
    """
    x = numbers(series.index)
    known = series.bfill().notna() & series.ffill().notna()
    raw = Line(name, tone, x, numbers(series), faint=True, dots=bool(series.count() <= FEW))
    return raw, Line(name, tone, x, numbers(smooth(series, window).where(known)))


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
    margin = max(0.5, 0.01 * (last - first))  # so that no first or last cycle is clipped
    x = Axis("cycle", first - margin, last + margin, unit="cycle")
    return Panel(title, x, y, (*extra, *ordered))


def robust_axis(
    label: str, lines: Iterable[Line], log: bool = False, include: Iterable[float] = ()
) -> Axis:
    """An axis that fits the lines and their first cycles, but ignores other outliers."""
    lines = list(lines)
    low, high = span_of([line.y for line in lines], log, [*include, *first_values(lines)])
    return Axis(label, low, high, log)


def first_values(lines: Iterable[Line]) -> list[float]:
    """The first known value of each line: often far from the rest, and the first that is read."""
    known = (line.y[np.isfinite(line.y)] for line in lines)
    return [float(values[0]) for values in known if len(values) and abs(values[0]) < HUGE]


def smoothing_text(study: Study, kind: str = "mean") -> str:
    """A caption that explains the thin and bold lines."""
    windows = sorted({window_for(run.cycles) for run in study.shown})
    lengths = " or ".join(map(str, windows)) or "no"
    return f"Thin: every cycle. Bold: running {kind} over {lengths} cycles."
