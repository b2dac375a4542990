"""One instance, event by event: how its vectors grow, and how a divergence starts and spreads."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from divergence.detector import norms
from divergence.lanemath import CONSTANTS
from divergence.rules import Rule
from trainer.chunk import Chunk, Keys
from trainer.instance import Job, train
from trainer.kernel import EventRows, Tables, total_loss
from trainer.outcome import Outcome
from trainer.setting import Setting
from trainer.steps import Steps

LEVELS = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Fractions of tau: a `Crossing` is recorded when a vector's largest |entry| reaches one."""


@dataclass(frozen=True, slots=True)
class Point:
    """After `events` events: the largest |entry| of all vectors, and the log-loss so far."""

    events: int
    max_inf: float
    logloss: float


@dataclass(frozen=True, slots=True)
class Crossing:
    """The first event after which a vector was at a fraction of tau; -1: it was so at the start."""

    level: float
    event: int
    feature: str
    value: str
    norm: float


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An instance's outcome, the same as that of `train`, and how it came about."""

    outcome: Outcome
    points: tuple[Point, ...]
    crossings: tuple[Crossing, ...]


class _Side:
    """The norms of one side's vectors, and the highest level that each has crossed."""

    def __init__(self, names: list[str], keys: Keys, slots: EventRows, tau: float) -> None:
        self.names, self.keys, self.slots, self.tau = names, keys, slots, tau
        self.inf: NDArray[np.float32] = np.zeros(len(keys), np.float32)
        self.crossed = np.zeros(len(keys), np.int64)
        self.crossings: list[Crossing] = []

    def record(self, event: int, rows: NDArray[np.int32], vectors: NDArray[np.float32]) -> None:
        """Record the norms of these rows; a norm that is not finite is above every level."""
        now = norms(vectors).inf
        self.inf[rows] = now
        share = np.where(np.isfinite(now), now, np.inf) / self.tau
        reached = np.searchsorted(LEVELS, share, "right")
        for i in np.flatnonzero(reached > self.crossed[rows]).tolist():
            row = int(rows[i])
            for level in LEVELS[self.crossed[row] : reached[i]]:
                name = self.names[int(self.keys.feature[row])]
                value = str(self.keys.value[row])
                self.crossings.append(Crossing(level, event, name, value, float(now[i])))
            self.crossed[row] = reached[i]


def trace(
    job: Job, chunk: Chunk, start: Tables, setting: Setting, rule: Rule, points: int = 100
) -> Trajectory:
    """Train once as `train` does, for the outcome, and once event by event, for the rest."""
    outcome = train(job, chunk, start, setting, rule).outcome
    steps = Steps(job, chunk, start, setting, rule)
    names = [feature.name for feature in job.spec.features]
    sides = [
        _Side(names, chunk.user_keys, chunk.users, job.tau),
        _Side(names, chunk.ad_keys, chunk.ads, job.tau),
    ]
    for side, table in zip(sides, steps.vectors, strict=True):
        side.record(-1, np.arange(len(table), dtype=np.int32), table)
    every = max(len(chunk) // points, 1)
    curve = [Point(0, _largest(sides), float("nan"))]
    for i in range(outcome.events_done):
        steps.until(i + 1)
        for side, table in zip(sides, steps.vectors, strict=True):
            rows = side.slots.row[side.slots.start[i] : side.slots.start[i + 1]]
            side.record(i, rows, table[rows])
        if (i + 1) % every == 0 or i + 1 == outcome.events_done:
            loss = float(total_loss(steps.margin, i + 1, CONSTANTS)) / (i + 1)
            curve.append(Point(i + 1, _largest(sides), loss))
    found = sorted(
        (c for side in sides for c in side.crossings), key=lambda c: (c.level, c.event, c.feature)
    )
    return Trajectory(outcome, tuple(curve), tuple(found))


def _largest(sides: list[_Side]) -> float:
    return float(max(np.max(side.inf, initial=0.0) for side in sides))
