"""The rows of one side of several lines: rows that all lines have alike are there once.

The first line that is loaded is the *base*. A row has a *slot* when it may differ from the base in
some line: then every line has it in its own arrays, in the same slot. Lines see the same chunks, so
they change the same rows. Sixteen lines that start from one large model take little more memory
than that model, until they have seen all of its values.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.geometry import PARTS

BLOCK = 1 << 16
"""So many rows are compared at a time."""
NO_SLOT = -1


class LineRows(NamedTuple):
    """Rows and their multipliers."""

    rows: NDArray[np.float32]  # [n, parts, width]
    mu: NDArray[np.float32]  # [n]


class RowsOfLines:
    """Rows of one side, by line number."""

    def __init__(self, width: int, base: LineRows | None = None) -> None:
        """No lines. `base` is not copied: nobody else may change it."""
        self._width = width
        self._base = _zeros(0, width) if base is None else base
        self._slot = np.full(len(self._base.mu), NO_SLOT, np.int64)
        """Of each row."""
        self._row = np.zeros(0, np.int64)
        """Of each slot; there may be room for more."""
        self._used = 0
        """How many slots there are."""
        self._shared = len(self._slot)
        """How many rows have none."""
        self._own: dict[int, LineRows] = {}

    def of(self, line: int) -> LineRows:
        """A line's own rows, by slot; not copied."""
        return self._own[line]

    def add(self, line: int) -> None:
        """Add a line that is as the base, where no row has a slot."""
        if self._used:
            raise ValueError(f"line {line} must be there before the others change")
        self._own[line] = _zeros(0, self._width)

    def copy(self, line: int, parent: int) -> None:
        """Replace a line by a copy of another, or add it."""
        rows, mu = self._own[parent]
        self._own[line] = _enlarged(LineRows(rows[: self._used], mu[: self._used]), len(mu))

    def put(self, line: int, given: LineRows) -> None:
        """Replace a line, or add it: `given` has all rows, by row number, and is copied."""
        self._own.pop(line, None)
        self.slots_of(self._differing(given))
        used = self._used
        made = _zeros(max(used, self._room()), self._width)
        for mine, theirs in zip(made, given, strict=True):
            np.take(theirs, self._row[:used], axis=0, out=mine[:used], mode="clip")
        self._own[line] = made

    def all_of(self, line: int, count: int) -> LineRows:
        """A copy of a line's first `count` rows, by row number."""
        used, made = self._used, _enlarged(self._base, count)
        for mine, own in zip(made, self._own[line], strict=True):
            mine[self._row[:used]] = own[:used]
        return made

    def keep_only(self, lines: set[int]) -> None:
        """Drop all other lines."""
        self._own = {line: own for line, own in self._own.items() if line in lines}

    def slots_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of these rows, each of which is named once. Those without one get one, with
        what the base has; new rows, beyond it, with anything."""
        self._slot = _with_room(self._slot, rows.max(initial=-1) + 1)
        slots = self._slot[rows]
        without = rows[slots == NO_SLOT]
        if len(without):
            self._give_slots(without)
            slots = self._slot[rows]
        return slots

    def _give_slots(self, rows: NDArray[np.int64]) -> None:
        first, room = self._used, self._room()
        self._used += len(rows)
        self._slot[rows] = np.arange(first, self._used)
        self._row = _with_room(self._row, self._used)
        self._row[first : self._used] = rows
        in_base = np.flatnonzero(rows < len(self._base.mu))
        for line, own in self._own.items():
            if room < self._used:
                own = self._own[line] = _enlarged(own, max(2 * room, self._used, 1024))
            for mine, base in zip(own, self._base, strict=True):
                mine[first + in_base] = base[rows[in_base]]
        self._shared -= len(in_base)
        if self._shared == 0:
            self._base = _zeros(0, self._width)

    def _room(self) -> int:
        """For how many slots all lines have room."""
        return min((len(own.mu) for own in self._own.values()), default=0)

    def _differing(self, given: LineRows) -> NDArray[np.int64]:
        """The rows whose bits are not those of the base."""
        known = min(len(self._base.mu), len(given.mu))
        found = [np.arange(known, len(given.mu))]
        for first in range(0, known, BLOCK):
            here = slice(first, min(first + BLOCK, known))
            pairs = zip(given, self._base, strict=True)
            rows, mu = (_bits(one[here]) != _bits(base[here]) for one, base in pairs)
            found.append(first + np.flatnonzero(rows.any(axis=(1, 2)) | mu))
        return np.concatenate(found)


def _zeros(count: int, width: int) -> LineRows:
    return LineRows(np.zeros((count, PARTS, width), np.float32), np.zeros(count, np.float32))


def _enlarged(rows: LineRows, count: int) -> LineRows:
    """A copy with room for `count` rows, or with as many as fit."""
    made = _zeros(count, rows.rows.shape[2])
    for new, old in zip(made, rows, strict=True):
        new[: len(old)] = old[:count]
    return made


def _with_room(numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The same, or a longer copy with NO_SLOT: twice as long, so that few are made."""
    if count <= len(numbers):
        return numbers
    made = np.full(max(count, 2 * len(numbers)), NO_SLOT, np.int64)
    made[: len(numbers)] = numbers
    return made


def _bits(array: NDArray[np.float32]) -> NDArray[np.int32]:
    """Not to be misled by NaN, or by -0 = 0."""
    return array.view(np.int32)
