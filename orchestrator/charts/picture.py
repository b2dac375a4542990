"""Charts as files: for papers and talks, and to look at a stream."""

from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullLocator,
    PercentFormatter,
)

from orchestrator.charts.chart import (
    Axis,
    Bars,
    Cells,
    Chart,
    Dots,
    Level,
    Line,
    Mark,
    Panel,
    Span,
    Tone,
)
from orchestrator.charts.glyphs import legible

COLOURS = ("#0072b2", "#d97706", "#009272", "#b5578c", "#2f9bd6", "#b23a00", "#8a7a00", "#6b4fb3")
QUIET, LOSS = "#5b6470", "#c2410c"
LEGEND = 0.2
"""Inches of a line of the legend."""
STYLE: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "svg.hashsalt": "holdfast",
    "path.simplify_threshold": 0.3,
}
PictureKind = Literal["svg", "png", "pdf"]
SAVING: dict[PictureKind, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None}},
    "pdf": {"metadata": {"CreationDate": None}},
    "png": {"dpi": 130},
}
"""Options of savefig: the same chart gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How panels are put on a sheet, in inches."""

    columns: int
    width: float
    row: float = 2.5
    """A row of panels, its labels included."""
    annotated: bool = False
    """Legends inside their panels and texts beside their bars; else one legend at the bottom."""


def svg(chart: Chart) -> bytes:
    """The chart as an SVG file: the same bytes for the same chart."""
    return drawn(chart, "svg")


def drawn(chart: Chart, kind: PictureKind, layout: Layout | None = None) -> bytes:
    """The chart as a file of this kind, its panels in rows from the upper left on."""
    chart, layout = legible(chart), layout or _usual_layout(chart)
    with matplotlib.rc_context(STYLE):
        figure, grid = _sheet(chart, layout)
        for axes, panel in zip(grid, chart.panels, strict=True):
            _draw(axes, panel, layout.annotated)
        if not layout.annotated:
            _legend(figure, chart)
        inch = 1 / figure.get_figheight()
        figure.text(0.01, 1 - 0.1 * inch, chart.title, va="top", fontsize=11)
        file = BytesIO()
        figure.savefig(file, format=kind, **SAVING[kind])
    return file.getvalue()


def _usual_layout(chart: Chart) -> Layout:
    columns = 1 if chart.wide else min(chart.columns, len(chart.panels))
    return Layout(columns, width=9.0 if columns > 1 or chart.wide else 5.5)


def _sheet(chart: Chart, layout: Layout) -> tuple[Figure, list[Axes]]:
    """Axes at fixed places: automatic layout takes longer than all the drawing."""
    columns, width, row_height = layout.columns, layout.width, layout.row
    rows = -(-len(chart.panels) // columns)
    pitch = (width - 0.15) / columns
    left = [max(map(_left, chart.panels[c::columns])) for c in range(columns)]
    lines = 1 if layout.annotated else -(-len(_tones(chart.panels)) // _columns_of_legend(width))
    height = 0.45 + row_height * rows + 0.2 + LEGEND * max(lines, 1)
    figure = Figure(figsize=(width, height))
    FigureCanvasSVG(figure)
    places = []
    for i in range(len(chart.panels)):
        row, column = divmod(i, columns)
        x, y = left[column] + column * pitch, height - 0.45 - row_height * (row + 1) + 0.5
        size = (pitch - left[column]) / width, (row_height - 0.8) / height
        places.append((x / width, y / height, *size))
    return figure, [figure.add_axes(place) for place in places]


def _left(panel: Panel) -> float:
    """Inches for the labels of the y axis."""
    longest = max(map(len, panel.y.names), default=0)
    return 1.4 if longest > 6 else 0.75


def colour(tone: Tone) -> str:
    """An arm's colour, the same as on the page."""
    if isinstance(tone, int):
        return COLOURS[tone % len(COLOURS)]
    return LOSS if tone == "accent" else QUIET


def _draw(axes: Axes, panel: Panel, annotated: bool) -> None:
    axes.set_title(panel.title, color="black" if annotated else QUIET)
    if not panel.marks:
        axes.set_axis_off()
        return
    bars = [mark for mark in panel.marks if isinstance(mark, Bars)]
    for mark in panel.marks:
        if isinstance(mark, Bars):
            size = 0.8 / len(bars)
            places = np.arange(len(mark.values)) - 0.4 + size * (bars.index(mark) + 0.5)
            patches = axes.barh(places, mark.values, size * 0.92, color=colour(mark.tone))
            if annotated:
                axes.bar_label(patches, mark.texts, padding=3)
        else:
            _mark(axes, panel, mark)
    _scale(axes, panel.x, "x")
    _scale(axes, panel.y, "y")
    if not panel.y.names:
        axes.grid(axis="y", linewidth=0.4, alpha=0.5)
    if annotated:
        axes.xaxis.set_visible(not bars)  # their texts tell the values
        tones = _tones([panel])
        if len(tones) > 1:
            axes.legend(*_entries(tones), loc="upper right", ncols=len(tones), frameon=False)


def _mark(axes: Axes, panel: Panel, mark: Mark) -> None:
    if isinstance(mark, Line):
        width, alpha = (0.6, 0.35) if mark.faint else (1.6, 1.0)
        sign = "o" if mark.dots else ""
        axes.plot(
            mark.x, mark.y, color=colour(mark.tone), lw=width, alpha=alpha, marker=sign, ms=3.5
        )
        _edges(axes, panel, mark)
    elif isinstance(mark, Dots):
        x, y = np.clip(mark.x, panel.x.low, panel.x.high), mark.y
        size = 30 if len(x) < 20 else 5
        axes.scatter(
            x, y, s=size, color=colour(mark.tone), alpha=0.6, lw=0, rasterized=len(x) > 500
        )
    elif isinstance(mark, Cells):
        boxes = [Rectangle((a, c), b - a, d - c) for a, b, c, d in mark.bounds]
        shades = [(*matplotlib.colors.to_rgb(LOSS), 0.04 + 0.96 * s) for s in mark.shade]
        axes.add_collection(PatchCollection(boxes, facecolors=shades, lw=0))
        for (a, b, c, d), label in zip(mark.bounds, mark.labels, strict=False):
            place = a + 0.05 * (b - a), (c + d) / 2
            axes.text(*place, label, va="center", fontsize=7.5, linespacing=1.3)
    elif isinstance(mark, Level):
        line = axes.axhline if mark.along == "x" else axes.axvline
        line(mark.at, color=QUIET, lw=0.8, ls=(0, (4, 4)))
    elif isinstance(mark, Span):
        axes.axvspan(mark.low, mark.high, color=QUIET, alpha=0.12, lw=0)
        axes.text(mark.low, 1, f" {mark.text}", transform=axes.get_xaxis_transform(), va="top")


def _edges(axes: Axes, panel: Panel, line: Line) -> None:
    """Small triangles for points beyond the scale."""
    for beyond, at, sign in (
        (line.y > panel.y.high, panel.y.high, "^"),
        (line.y < panel.y.low, panel.y.low, "v"),
    ):
        x = line.x[beyond][:80]
        axes.plot(x, np.full(len(x), at), sign, ms=3, color=colour(line.tone), clip_on=False)


def _scale(axes: Axes, axis: Axis, which: str) -> None:
    part = axes.xaxis if which == "x" else axes.yaxis
    getattr(axes, f"set_{which}scale")("log" if axis.log else "linear")
    getattr(axes, f"set_{which}label")(axis.label)
    if axis.names:
        part.set_ticks(list(range(len(axis.names))), [name[:24] for name in axis.names])
        limits = (axis.low, axis.high) if which == "x" else (axis.high, axis.low)
        getattr(axes, f"set_{which}lim")(*limits)
        return
    getattr(axes, f"set_{which}lim")(axis.low, axis.high)
    if axis.unit == "%":
        part.set_major_formatter(PercentFormatter(1.0))
    elif axis.log:
        span = axis.high / axis.low
        subs = (1.0,) if span > 1e4 else (1.0, 2.0, 5.0)
        part.set_major_locator(LogLocator(subs=subs) if span > 8 else MaxNLocator(nbins=5))
        part.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        part.set_minor_locator(NullLocator())
    else:
        part.set_major_locator(MaxNLocator(nbins=6, integer=axis.unit in ("cycle", "count")))


def _tones(panels: Iterable[Panel]) -> dict[str, Tone]:
    """The colour of each named mark."""
    marks = (mark for panel in panels for mark in panel.marks)
    return {mark.name: mark.tone for mark in marks if isinstance(mark, Line | Dots | Bars)}


def _columns_of_legend(width: float) -> int:
    return int(width / 1.75)


def _legend(figure: Figure, chart: Chart) -> None:
    tones = _tones(chart.panels)
    if len(tones) > 1:
        columns = _columns_of_legend(figure.get_figwidth())
        figure.legend(*_entries(tones), loc="lower left", ncols=columns, frameon=False)


def _entries(tones: dict[str, Tone]) -> tuple[list[Line2D], list[str]]:
    return [Line2D([], [], color=colour(tone), lw=2) for tone in tones.values()], list(tones)
