"""The regime map as committed: what each rule did in each simulated market.

`map.csv` has one row per signal, width of draws, rule and seed; `scripts/results/regime.py` writes
it. Everything here is a mean over its seeds.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd

BASELINE = "l2"
"""The rule that lifts are measured against."""
COLUMNS = ("signal", "width", "rule", "seed", "cycles", "events", "instances", "predictability",
           "retained", "useful", "heavy", "gain", "lift")  # fmt: skip
"""Shares, except `lift`, which is in percent. `heavy`: cycles that lose more than a fifth."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """What one rule did in one market; shares, except `lift` (over l2, in percent)."""

    lost: float
    useful: float
    heavy: float
    gain: float
    """How far its served log-loss was below that of a constant CTR."""
    lift: float


@dataclass(frozen=True, slots=True)
class MapCell:
    """A cell of the map: a strength of signals and a width of draws."""

    predictability: float
    """The mean over all widths, so that the markets of a row have the same."""
    width: float
    results: Mapping[str, RuleResult]
    """By rule."""

    def __str__(self) -> str:
        return f"predictability {self.predictability:.0%}, draws {width_text(self.width)}"

    def served_best(self) -> str:
        """Which rule had the lowest served log-loss, in words."""
        best = max(self.results, key=lambda rule: self.results[rule].lift)
        if best == BASELINE:
            return f"no rule served better than {BASELINE}"
        return f"{best} served best ({self.results[best].lift:+.1f}% over {BASELINE})"


@dataclass(frozen=True, slots=True)
class RegimeMap:
    """All markets: `markets[i][j]` has the i-th predictability and the j-th width, ascending."""

    markets: tuple[tuple[MapCell, ...], ...]
    rules: tuple[str, ...]
    """The baseline first."""
    seeds: tuple[int, ...]
    size: str
    """How long each run was, in words."""

    @property
    def predictabilities(self) -> list[float]:
        """Of the rows, ascending."""
        return [row[0].predictability for row in self.markets]

    @property
    def widths(self) -> list[float]:
        """Of the columns, ascending."""
        return [market.width for market in self.markets[0]]


def width_text(width: float) -> str:
    """How far draws lie from the middle, as "x/÷10"."""
    return f"x/÷{width:.3g}"


@cache
def committed_map() -> RegimeMap:
    """The map that is part of this package."""
    text = (files("orchestrator.report") / "regime" / "map.csv").read_text(encoding="utf-8")
    return read_map(text)


def read_map(text: str) -> RegimeMap:
    """The map in a CSV file with `COLUMNS`."""
    frame = pd.read_csv(io.StringIO(text), keep_default_na=False)
    level = frame.groupby("signal")["predictability"].mean().sort_values()
    means = {
        key: _result(rows.mean(numeric_only=True))
        for key, rows in frame.groupby(["signal", "width", "rule"])
    }
    widths = sorted(frame["width"].unique())
    rules = tuple(dict.fromkeys(frame["rule"]))
    markets = tuple(
        tuple(
            MapCell(
                float(level[signal]),
                float(width),
                {rule: means[signal, width, rule] for rule in rules},
            )
            for width in widths
        )
        for signal in level.index
    )
    seeds = tuple(int(seed) for seed in np.unique(frame["seed"]))
    cycles, events, instances = (
        int(frame[name].max()) for name in ("cycles", "events", "instances")
    )
    size = f"{cycles} cycles of {events:,} events with {instances} instances"
    return RegimeMap(markets, rules, seeds, size)


def _result(row: pd.Series) -> RuleResult:
    return RuleResult(
        1 - float(row["retained"]), *(float(row[n]) for n in ("useful", "heavy", "gain", "lift"))
    )
