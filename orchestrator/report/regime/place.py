"""Where a run lies on the regime map: how predictable its events are, and how wide its draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pandas as pd

from orchestrator.config.ranges import Choice, Interval, value_at
from orchestrator.config.schema import AdaptiveSampler, RunConfig
from orchestrator.config.space import space_of
from orchestrator.report.load import Run
from orchestrator.report.regime.table import MapCell, RegimeMap, width_text
from orchestrator.report.study import Study

MIN_CYCLES = 8
"""A run with fewer served cycles is not placed."""
WARM_UP = 4
"""The first 1/WARM_UP of the cycles do not count: models still learn the basics there."""
CLOSE = 0.25
"""A run is in a market of the map if it is this near to its centre, in cells."""


class Distance(Enum):
    """How near a run is to a market of the map."""

    IN = "in a market of the map"
    BETWEEN = "between markets of the map"
    OUTSIDE = "outside the map"


@dataclass(frozen=True, slots=True)
class Place:
    """A run on the map. `row` and `column` count cells, as fractions; -0.5 is the map's border."""

    predictability: float
    width: float
    row: float
    column: float
    market: MapCell
    """The nearest one."""
    distance: Distance

    def __str__(self) -> str:
        side = "below" if self.predictability >= 0 else "above"
        return (
            f"served log-loss {abs(self.predictability):.1%} {side} that of a constant CTR, "
            f"draws {width_text(self.width)}"
        )


def place_of(study: Study, run: Run, regime: RegimeMap) -> Place | None:
    """Where the run lies; None if too few of its cycles were served."""
    gains = served_gains(study, run)
    if not gains:
        return None
    width = width_of(run.config)
    return locate(regime, max(gains.values()), width)


def locate(regime: RegimeMap, predictability: float, width: float) -> Place:
    """The place of these two numbers on the map."""
    row = _index(predictability, regime.predictabilities)
    column = _index(math.log(width), [math.log(w) for w in regime.widths])
    shape = len(regime.predictabilities), len(regime.widths)
    i, j = (min(max(round(at), 0), n - 1) for at, n in zip((row, column), shape, strict=True))
    off = max(abs(row - i), abs(column - j))
    distance = Distance.IN if off <= CLOSE else Distance.BETWEEN if off <= 0.5 else Distance.OUTSIDE
    return Place(predictability, width, row, column, regime.markets[i][j], distance)


def served_gains(study: Study, run: Run) -> dict[str, float]:
    """How far each arm's served log-loss is below that of a constant CTR, as a share of the latter.

    Over the cycles that all arms share, without the first quarter. Arms with fewer than
    `MIN_CYCLES` of them are left out.
    """
    gains = {}
    for arm, records in run.records.items():
        if records:
            frame = study.of(run, arm)
            served = settled(frame.loc[frame.index.intersection(study.shared(run))])
            if len(served) >= MIN_CYCLES:
                events = served["events"].astype(float)
                constant = float((served["constant_logloss"] * events).sum())
                loss = float((served["served_logloss"] * events).sum())
                if constant > 0:
                    gains[arm] = 1 - loss / constant
    return gains


def settled(frame: pd.DataFrame) -> pd.DataFrame:
    """An arm's cycles with a served log-loss, without the first quarter of them."""
    losses = frame["served_logloss"] + frame["constant_logloss"]
    known = frame.loc[np.isfinite(losses)]
    return known.iloc[len(known) // WARM_UP :]


def width_of(config: RunConfig) -> float:
    """The factor by which draws of eta0 and alpha may differ from the middle of the draws.

    The geometric mean of the two, and of the arms where they have ranges of their own.
    """
    sampler = config.search.sampler
    logs = []
    for arm in config.arms:
        space = space_of(config, arm, rho0=1.0)
        for name in ("eta0", "alpha"):
            width = _half_span(space[name])
            if isinstance(sampler, AdaptiveSampler):
                width = min(
                    width**2, getattr(sampler.spread, name)
                )  # the champion may be at an end
            logs.append(math.log(width))
    return math.exp(sum(logs) / len(logs))


def _half_span(span: Interval | Choice) -> float:
    """The factor from the middle of a range to its ends; of a uniform one, to its outer 5%."""
    if isinstance(span, Choice):
        ends = [value for value in span.choice if value > 0] or [1.0]
        return math.sqrt(max(ends) / min(ends))
    if span.log:
        return math.sqrt(span.high / span.low)
    low, high = value_at(span, 0.05), value_at(span, 0.95)
    return math.sqrt(high / low) if low > 0 else 1.0


def _index(value: float, centres: Sequence[float]) -> float:
    """The position of a value among ascending centres, as a fractional index; it extrapolates."""
    if len(centres) == 1:
        return (value - centres[0]) / (abs(centres[0]) or 1.0)
    i = min(max(int(np.searchsorted(centres, value)) - 1, 0), len(centres) - 2)
    return i + (value - centres[i]) / (centres[i + 1] - centres[i])
