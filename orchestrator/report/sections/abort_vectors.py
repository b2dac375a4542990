"""The norm of every vector against its number of updates, just before an abort."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from divergence.detector import LARGE
from orchestrator.charts.chart import Axis, Chart, Dots, Level, Panel, numbers, span_of
from orchestrator.report.aborts import Abort
from orchestrator.report.section import Section
from orchestrator.report.verdict import Finding, Statement, holds, judged

FEW = 0.05
"""Up to this share of the vectors counts as few."""
MAX_DOTS = 2500


def abort_vectors(aborts: Sequence[Abort]) -> Section | None:
    """One panel for each retrained abort; None if there is none."""
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
                "‖v‖∞ of every vector against its updates, when the instance stopped",
                f"Each dot is a vector. Beyond {MAX_DOTS:,} vectors, only the largest and an even "
                "sample of the others are drawn. Norms beyond the axis are drawn at its edge.",
                tuple(_panel(abort, several) for abort in aborts),
                wide=False,
            ),
        ),
        note=f"Exceptionally large: above {LARGE:.0%} of τ; few: at most {FEW:.0%} of all vectors. "
        "The aborted instance was trained again, with identical bits.",
    )


def _finding(abort: Abort) -> Finding:
    norm = numbers(abort.vectors["norm"].fillna(np.inf))  # NaN has diverged, too
    updates = numbers(abort.vectors["updates"])
    large = norm >= LARGE * abort.tau
    share = float(large.mean())
    rare = updates <= np.median(updates)
    medians = [float(np.median(norm[part])) if part.any() else np.nan for part in (rare, ~rare)]
    rare_small = None if np.isnan(medians).any() else medians[0] < medians[1]
    text = (
        f"{abort.which.arm}, cycle {abort.which.cycle}, instance {abort.which.instance}: "
        f"{large.sum():,} of {len(norm):,} vectors ({share:.2%}) are above "
        f"{LARGE * abort.tau:.3g}; the median norm is {medians[0]:.3g} for the half with fewer "
        f"updates and {medians[1]:.3g} for the other half."
    )
    return judged(
        text,
        abort.run,
        Statement("only a few vectors are exceptionally large", holds(share <= FEW)),
        Statement("vectors with few updates are smaller", holds(rare_small)),
    )


def _panel(abort: Abort, several: bool) -> Panel:
    shown = thinned(abort.vectors, MAX_DOTS)
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
    """At most `most` rows: half of them the largest norms, the others evenly spaced by norm."""
    if len(vectors) <= most:
        return vectors
    order = vectors["norm"].astype(float).fillna(np.inf).sort_values(ascending=False).index
    largest, rest = order[: most // 2], order[most // 2 :]
    even = rest[np.linspace(0, len(rest) - 1, most - len(largest)).astype(int)]
    return vectors.loc[[*largest, *even]]
