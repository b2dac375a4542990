"""A description of a stream as a picture, for a person to check a mapping with."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from divergence.errors import InputError
from orchestrator.sources.describe import TOP, Description, FeatureSummary
from orchestrator.sources.describe_table import headline, shortened

EVENTS, CLICKS, NEW, GONE, BROKEN = "#4c78a8", "#e4572e", "#54a24b", "#b279a2", "#d62728"
ROW_INCHES, WIDTH_INCHES = 1.75, 13.0
STYLE: dict[Any, Any] = {
    "font.size": 8.5,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "svg.hashsalt": "holdfast",
}


def draw(described: Description, path: Path, title: str) -> None:
    """Write the picture; the suffix says as what (png, svg, pdf)."""
    known = ("png", "svg", "pdf")
    if path.suffix.lstrip(".").lower() not in known:
        raise InputError(f"--picture {path}: the name must end in .{', .'.join(known)}")
    with matplotlib.rc_context(STYLE):
        figure = _figure(described, title)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)


def _figure(described: Description, title: str) -> Figure:
    rows = 1 + len(described.features)
    figure = Figure(figsize=(WIDTH_INCHES, ROW_INCHES * rows + 0.6), layout="constrained")
    figure.suptitle(f"{title}\n{headline(described)}", x=0.01, ha="left", fontsize=11)
    figure.supxlabel("cycle (left and middle)", fontsize=8.5)
    grid = figure.add_gridspec(rows, 3, width_ratios=(1.15, 1.15, 1.4))
    _events(figure.add_subplot(grid[0, 0]), described)
    _ctr(figure.add_subplot(grid[0, 1]), described)
    _aside(figure.add_subplot(grid[0, 2]), described)
    for row, feature in enumerate(described.features, start=1):
        _values(figure.add_subplot(grid[row, 0]), feature, described)
        _turnover(figure.add_subplot(grid[row, 1]), feature)
        _top(figure.add_subplot(grid[row, 2]), feature)
    return figure


def _cycle_axis(axes: Axes) -> None:
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4, integer=True))
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.4, alpha=0.5)


def _events(axes: Axes, described: Description) -> None:
    numbers = [cycle.cycle for cycle in described.cycles]
    axes.bar(numbers, [cycle.events for cycle in described.cycles], color=EVENTS, width=0.9)
    axes.set_title("events a cycle")
    _cycle_axis(axes)


def _ctr(axes: Axes, described: Description) -> None:
    busy = [cycle for cycle in described.cycles if cycle.events]
    shares = [cycle.clicks / cycle.events for cycle in busy]
    axes.plot([cycle.cycle for cycle in busy], shares, color=CLICKS, marker=".", linewidth=1)
    axes.set_title("CTR")
    _cycle_axis(axes)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _aside(axes: Axes, described: Description) -> None:
    axes.set_title("rows set aside")
    if not described.set_aside:
        axes.text(0.0, 0.8, "none", transform=axes.transAxes, color="grey")
        axes.set_axis_off()
        return
    reasons = sorted(described.set_aside, key=lambda reason: described.set_aside[reason])[-6:]
    bars = axes.barh(reasons, [described.set_aside[reason] for reason in reasons], color=BROKEN)
    axes.bar_label(bars, fmt="{:,.0f}", padding=2)
    axes.margins(x=0.15)


def _values(axes: Axes, feature: FeatureSummary, described: Description) -> None:
    missing = feature.missing / described.events if described.events else 0.0
    several = f", {feature.values_per_event:.2f} an event" if feature.multi else ""
    axes.set_title(
        f"{feature.name} ({feature.side}): {feature.cardinality:,} values{several}, "
        f"{missing:.2%} missing",
        color=BROKEN if missing > 0.5 else "black",
        fontweight="bold",
    )
    axes.plot(*_line(feature, "values"), color=EVENTS, linewidth=1.2)
    axes.set_ylabel("distinct values")
    _cycle_axis(axes)


def _turnover(axes: Axes, feature: FeatureSummary) -> None:
    for key, colour in (("new", NEW), ("vanished", GONE)):
        numbers, counts = _line(feature, key)
        axes.plot(numbers[1:], counts[1:], color=colour, linewidth=1.2, label=f"{key} values")
    if len(feature.cycles) > 1:
        axes.legend(frameon=False, loc="upper right", ncols=2, borderpad=0, handlelength=1.2)
    _cycle_axis(axes)
    axes.set_ylim(top=max(1.0, axes.get_ylim()[1] * 1.25))


def _line(feature: FeatureSummary, key: str) -> tuple[list[int], list[int]]:
    return list(range(len(feature.cycles))), [getattr(cycle, key) for cycle in feature.cycles]


def _top(axes: Axes, feature: FeatureSummary) -> None:
    """Shares of the most frequent values, with their CTR beside the bars."""
    shown = feature.top[::-1]
    axes.set_title("most frequent values: share of events, and CTR")
    names = [shortened(value.value, 18) for value in shown]
    places = list(range(TOP - len(shown), TOP))
    bars = axes.barh(places, [value.share for value in shown], color=EVENTS, height=0.75)
    axes.bar_label(bars, [f"{v.share:.1%} · CTR {v.ctr:.2%}" for v in shown], padding=3)
    axes.set_yticks(places, names, fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, TOP - 0.4)
    axes.set_xlim(0, max([value.share for value in shown], default=1.0) * 1.45)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
