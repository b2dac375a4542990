"""The regime map as a figure: a heat map for each rule, with runs marked on it."""

from collections.abc import Sequence

import numpy as np

from orchestrator.charts.chart import Axis, Cells, Chart, Dots, Panel, numbers
from orchestrator.report.regime.place import Place
from orchestrator.report.regime.table import BASELINE, MapCell, RegimeMap, width_text

FULL = 0.25
"""The share of lost instances at which a cell has its darkest colour."""
DARKEST = 0.55
"""A darker one would hide the numbers in it."""

Placed = Sequence[tuple[str, Place]]
"""Runs by name, and where they lie."""


def map_chart(regime: RegimeMap, placed: Placed) -> Chart:
    """A heat map for each rule: lost instances, and what the rule gains over l2."""
    dots = " The dot is this run." if len(placed) == 1 else " The dots are these runs."
    return Chart(
        "regime-map",
        "Where divergence costs you, and what each rule gives back",
        "Upper number and colour: the share of instances lost. Lower number: how much lower the "
        f"served log-loss is than {BASELINE}'s. Up: events that are easier to predict (how far the "
        "best served log-loss lies below that of a constant CTR). To the right: draws further from "
        "the champion." + (dots if placed else ""),
        tuple(_panel(regime, rule, placed) for rule in regime.rules),
        wide=False,
        columns=3,
    )


def _panel(regime: RegimeMap, rule: str, placed: Placed) -> Panel:
    bounds, shades, texts, labels = [], [], [], []
    height, width = len(regime.predictabilities), len(regime.widths)
    for i, row in enumerate(regime.markets):
        y = height - 1 - i  # the most predictable market at the top
        for x, market in enumerate(row):
            result = market.results[rule]
            bounds.append((x - 0.5, x + 0.5, y + 0.5, y - 0.5))
            shades.append(DARKEST * min(result.lost / FULL, 1))
            lift = "" if rule == BASELINE else f"\n{round(result.lift, 1) + 0.0:+.1f}%"  # no -0.0
            labels.append(f"{result.lost:.0%}{lift}")
            texts.append(_cell_text(rule, market))
    cells = Cells("lost", numbers(bounds), numbers(shades), tuple(texts), tuple(labels))
    rows = [height - 1 - np.clip(place.row, -0.4, height - 0.6) for _, place in placed]
    columns = [np.clip(place.column, -0.4, width - 0.6) for _, place in placed]
    tips = tuple(f"{name}: {place}" for name, place in placed)
    dots = Dots("this run", 0, numbers(columns), numbers(rows), tips)
    names = tuple(f"{value:.0%}" for value in reversed(regime.predictabilities))
    return Panel(
        f"{rule} (production)" if rule == BASELINE else rule,
        Axis("width of draws", -0.5, width - 0.5, names=tuple(map(width_text, regime.widths))),
        Axis("predictability", -0.5, height - 0.5, names=names),
        (cells, dots) if placed else (cells,),
    )


def _cell_text(rule: str, market: MapCell) -> str:
    result = market.results[rule]
    lift = "" if rule == BASELINE else f"\nserved lift over {BASELINE}: {result.lift:+.2f}%"
    return (
        f"{rule}, {market}\nlost: {result.lost:.1%} of the instances\n"
        f"useful: {result.useful:.1%}\ncycles losing more than a fifth: {result.heavy:.0%}\n"
        f"served log-loss below a constant CTR: {result.gain:.1%}{lift}"
    )
