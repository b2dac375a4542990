"""The size of every vector against how often it was updated, just before an abort."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from orchestrator.charts.chart import Axis, Chart, Dots, Level, Panel, numbers, span_of
from orchestrator.report.aborts import Abort
from orchestrator.report.section import Section
from orchestrator.report.verdict import Finding, Statement, holds, judged

LARGE = 1 / 3
"""Of tau: norms above this are called exceptionally large."""
FEW = 0.05
"""The share of vectors up to which they are few."""
MOST_DOTS = 2500


def scatter(aborts: Sequence[Abort]) -> Section | None:
    """One panel for each abort that was trained again; None where there are none."""
    if not aborts:
        return None
    several = len({abort.run for abort in aborts}) > 1
    return Section(
        key="scatter",
        title="Vectors just before an abort",
        claim="Just before an instance is aborted, only a few vectors have exceptionally large "
        "norms; most stay small, and vectors with few updates are small.",
        findings=tuple(_finding(abort) for abort in aborts),
        charts=(
            Chart(
                "vectors-before-abort",
                "‖v‖∞ of every vector against its updates, as the instance stopped",
                f"Each dot is a vector; of more than {MOST_DOTS:,} the largest and an even part "
                "of the others are drawn. Norms beyond the scale stand at its edge.",
                tuple(_panel(abort, several) for abort in aborts),
                wide=False,
            ),
        ),
        note=f"Exceptionally large: above {LARGE:.0%} of τ; few: at most {FEW:.0%} of all vectors. "
        "Made by training the aborted instance again, to the same bits.",
    )


def _finding(abort: Abort) -> Finding:
    norm = numbers(abort.vectors["norm"].fillna(np.inf))  # NaN has got away, too
    updates = numbers(abort.vectors["updates"])
    large = norm >= LARGE * abort.tau
    share = float(large.mean())
    rare = updates <= np.median(updates)
    medians = [float(np.median(norm[part])) if part.any() else np.nan for part in (rare, ~rare)]
    young_small = None if np.isnan(medians).any() else medians[0] < medians[1]
    text = (
        f"{abort.which.arm}, cycle {abort.which.cycle}, instance {abort.which.instance}: "
        f"{large.sum():,} of {len(norm):,} vectors ({share:.2%}) are above "
        f"{LARGE * abort.tau:.3g}; the median norm is {medians[0]:.3g} for the less updated half "
        f"and {medians[1]:.3g} for the other."
    )
    return judged(
        text,
        abort.run,
        Statement("only a few vectors are exceptionally large", holds(share <= FEW)),
        Statement("vectors with few updates are smaller", holds(young_small)),
    )


def _panel(abort: Abort, several: bool) -> Panel:
    shown = thinned(abort.vectors, MOST_DOTS)
    norm, updates = numbers(shown["norm"]), numbers(shown["updates"])
    texts = tuple(
        f"{feature}={value or '(missing)'}: norm {size:.3g}, {times:,.0f} updates"
        for feature, value, size, times in zip(
            shown["feature"], shown["value"], norm, updates, strict=True
        )
    )
    _, high = span_of([norm], include=[abort.tau])
    high = min(high, 1.5 * abort.tau)
    norm = np.where(np.isfinite(norm), norm, 1e300)  # drawn at the edge
    _, top = span_of([updates + 1], log=True)
    which = abort.which
    name = f"{which.arm}, cycle {which.cycle}, instance {which.instance}"
    return Panel(
        f"{abort.run}: {name}" if several else name,
        Axis("‖v‖∞", 0, high),
        Axis("updates + 1", 0.8, top, log=True),
        (Level("τ", abort.tau, along="y"), Dots("vectors", "accent", norm, updates + 1, texts)),
    )


def thinned(vectors: pd.DataFrame, most: int) -> pd.DataFrame:
    """At most so many rows: the half with the largest norms, and evenly of the rest by norm."""
    if len(vectors) <= most:
        return vectors
    order = vectors["norm"].astype(float).fillna(np.inf).sort_values(ascending=False).index
    largest, rest = order[: most // 2], order[most // 2 :]
    even = rest[np.linspace(0, len(rest) - 1, most - len(largest)).astype(int)]
    return vectors.loc[[*largest, *even]]
