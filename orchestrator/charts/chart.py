"""A figure as data. The report's page and the pictures are drawn from it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

HUGE = 1e100
"""Numbers beyond this, and on a log scale those nearer to zero than its inverse, set no limit."""
Numbers = NDArray[np.float64]
Tone = int | Literal["quiet", "accent"]
"""A colour: an arm's number (the paper's blue is 0, its orange 1), grey, or that of losses."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale. `low` and `high` are the limits shown first; marks beyond are drawn at the edge."""

    label: str
    low: float
    high: float
    log: bool = False
    unit: Literal["", "%", "cycle", "count"] = ""
    names: tuple[str, ...] = ()
    """The categories at 0, 1, 2, …"""


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A curve; NaN leaves a gap. A faint one is the raw series behind a smoothed one."""

    name: str
    tone: Tone
    x: Numbers
    y: Numbers
    faint: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Dots:
    """Points, each with a text that the page shows on hover."""

    name: str
    tone: Tone
    x: Numbers
    y: Numbers
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rectangles of a grid: `bounds` has columns x0, x1, y0, y1; `shade` is between 0 and 1.

    y0 is the lower edge on paper: the larger number on an axis of categories, which goes down.
    """

    name: str
    bounds: Numbers
    shade: Numbers
    texts: tuple[str, ...]
    labels: tuple[str, ...] = ()
    """Short texts at the left of the cells, of one or two lines; for shades of at most 0.55."""


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Horizontal bars at the categories of the y axis; those of several arms are side by side."""

    name: str
    tone: Tone
    values: Numbers
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A line across, at a value of y (or of x), and its label."""

    text: str
    at: float
    along: Literal["x", "y"] = "x"


@dataclass(frozen=True, slots=True)
class Span:
    """A marked stretch of x, and its label."""

    text: str
    low: float
    high: float


Mark = Line | Dots | Cells | Bars | Level | Span


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes and what is drawn in them, in order."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure: panels and a caption. `key` names its file."""

    key: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    wide: bool = True
    """Panels below one another; else side by side if there is room."""
    columns: int = 2
    """How many panels a file has side by side if it is not wide."""


def numbers(values: ArrayLike) -> Numbers:
    """Any series as floats; missing values become NaN."""
    return np.asarray(values, dtype=float)


def span_of(
    series: Iterable[ArrayLike], log: bool = False, include: Iterable[float] = ()
) -> tuple[float, float]:
    """Limits that show most of some series and that outliers do not stretch.

    The full range, if it is at most three times that of the middle 96%; else the latter and half
    of it on each side. `include`: values that must be inside.
    """
    parts = [np.ravel(numbers(one)) for one in series]
    values = np.concatenate(parts) if parts else np.zeros(0)
    values = values[(np.abs(values) < HUGE) & ((values > 1 / HUGE) | (not log))]
    seen = [v for v in include if v > 0 or not log]
    if log:
        low, high = _bulk(np.log10(values), [float(np.log10(v)) for v in seen])
        return 10.0**low, 10.0**high
    return _bulk(values, seen)


def _bulk(values: Numbers, seen: list[float]) -> tuple[float, float]:
    if len(values) == 0:
        low, high = (min(seen), max(seen)) if seen else (0.0, 1.0)
    else:
        low, high = float(values.min()), float(values.max())
        inner_low, inner_high = (float(q) for q in np.quantile(values, (0.02, 0.98)))
        inner = inner_high - inner_low
        if inner > 0 and high - low > 3 * inner:
            low, high = max(low, inner_low - inner / 2), min(high, inner_high + inner / 2)
        low, high = min([low, *seen]), max([high, *seen])
    margin = 0.04 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin
