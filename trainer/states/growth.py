"""The largest entries of a state, and how they grow while an instance trains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.scoring import log_loss
from trainer.states.model import as_rows
from trainer.trajectory import LEVELS, Crossing, Point


@dataclass(frozen=True, slots=True)
class LargestRow:
    """The row with the largest |entry| of some arrays; one that is not finite is the largest."""

    array: str
    row: int | None
    """None where the array has one axis, and so no rows."""
    norm: float

    @property
    def label(self) -> str:
        """The row in words."""
        return "" if self.row is None else f"row {self.row}"


def largest_of(arrays: Mapping[str, NDArray[Any]]) -> LargestRow | None:
    """The largest row; None where there are no entries."""
    worst: LargestRow | None = None
    for name, array in arrays.items():
        if not array.size:
            continue
        inf = row_norms(array)
        at = int(np.argmax(inf))
        if worst is None or inf[at] > worst.norm:
            worst = LargestRow(name, at if array.ndim > 1 else None, float(inf[at]))
    return worst


def row_norms(array: NDArray[Any]) -> NDArray[Any]:
    """The largest |entry| of each row; inf where one is not a number."""
    inf = np.abs(as_rows(array)).max(axis=1, initial=0.0)
    return np.where(np.isnan(inf), np.inf, inf)


class EntryGrowth:
    """The largest entry after each block of events, and which rows came close to tau when."""

    def __init__(self, tau: float, click: NDArray[np.uint8]) -> None:
        self.points: list[Point] = []
        self.crossings: list[Crossing] = []
        self._tau, self._click = tau, click
        self._crossed: dict[str, NDArray[np.int64]] = {}

    def note(
        self, done: int, arrays: Mapping[str, NDArray[Any]], logits: Sequence[NDArray[Any]]
    ) -> None:
        """These are the watched arrays after `done` events."""
        loss = log_loss(np.concatenate(logits), self._click[:done]) if done else float("nan")
        worst = largest_of(arrays)
        self.points.append(Point(done, worst.norm if worst else 0.0, loss))
        for name, array in arrays.items():
            inf = row_norms(array)
            reached = np.searchsorted(LEVELS, inf / self._tau, "right")
            before = self._crossed.get(name, np.zeros(0, np.int64))
            before = np.concatenate([before, np.zeros(max(len(inf) - len(before), 0), np.int64)])
            for row in np.flatnonzero(reached > before[: len(inf)]).tolist():
                label = f"row {row}" if array.ndim > 1 else "all"
                self.crossings += [
                    Crossing(level, done - 1, name, label, float(inf[row]))
                    for level in LEVELS[before[row] : reached[row]]
                ]
            self._crossed[name] = np.maximum(before[: len(inf)], reached)
        self.crossings.sort(key=lambda one: (one.level, one.event, one.feature))
