"""Which row belongs to which (feature, value), and when it was last seen."""

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from trainer.chunk import Keys

Key = tuple[int, str]
"""A feature's number (user features first) and a value."""


class KeyIndex:
    """The keys of one side, users or ads. Rows are numbers; what they hold is kept elsewhere.

    The same chunks in the same order give the same row numbers.
    """

    COLUMNS: tuple[str, ...] = ("updates", "seen")
    """The arrays with an entry for each row, which grow together."""

    def __init__(self) -> None:
        """No rows."""
        self.updates = np.zeros(0, np.int64)
        self.seen = np.zeros(0, np.int32)
        self.keys: list[Key | None] = []
        self.index: dict[Key, int] = {}
        self.free: list[int] = []
        self.rows_of_cycle: dict[int, list[NDArray[np.int64]]] = {}  # that were seen in it
        self.listed = 0  # rows in `rows_of_cycle`, also those that were seen again later

    def __len__(self) -> int:
        """How many vectors are alive."""
        return len(self.index)

    def alive(self) -> NDArray[np.int64]:
        """The rows in use, in the order of their first insertion."""
        return np.fromiter(self.index.values(), np.int64, len(self.index))

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The row of each key, -1 where there is none."""
        return np.fromiter(map(self.index.get, keys.pairs, repeat(-1)), np.int64, len(keys))

    def insert(self, keys: Iterable[Key]) -> NDArray[np.int64]:
        """Rows for keys that the side does not hold yet."""
        added = []
        for key in keys:
            if self.free:
                row = self.free.pop()
                self.keys[row] = key
            else:
                row = len(self.keys)
                self.keys.append(key)
            self.index[key] = row
            added.append(row)
        self._grow(len(self.keys))
        return np.array(added, np.int64)

    def insert_at(self, keys: Sequence[Key], rows: NDArray[np.int64], free: Sequence[int]) -> None:
        """Give these keys these rows, where there are none yet. ValueError if rows are not unique
        or leave others than `free`."""
        given = np.sort(np.concatenate([rows, np.array(free, np.int64)]))
        if self.keys or not np.array_equal(given, np.arange(len(given))):
            raise ValueError("its row numbers do not fit")
        self.keys = [None] * len(given)
        for key, row in zip(keys, rows.tolist(), strict=True):
            self.keys[row] = key
            self.index[key] = row
        self.free = list(free)
        self._grow(len(self.keys))

    def remove(self, key: Key) -> int:
        """Forget a key; returns its row."""
        row = self.index.pop(key)
        self.keys[row] = None
        self.free.append(row)
        return row

    def touch(self, rows: NDArray[np.int64], cycle: int) -> None:
        """Mark these rows as seen in this cycle."""
        self.seen[rows] = cycle
        self.rows_of_cycle.setdefault(cycle, []).append(rows)
        self.listed += len(rows)
        if self.listed > 8 * len(self.keys) + 1024:  # most were seen again later
            alive = self.alive()
            self.touch_each(alive, self.seen[alive])

    def touch_each(self, rows: NDArray[np.int64], seen: NDArray[np.int32]) -> None:
        """Mark each of these rows, which are all rows in use, as last seen in its own cycle."""
        self.seen[rows] = seen
        order = np.argsort(seen, kind="stable")
        cycles, first = np.unique(seen[order], return_index=True)
        groups = np.split(rows[order], first)[1:]  # none where there are no rows
        self.rows_of_cycle = {int(c): [group] for c, group in zip(cycles, groups, strict=True)}
        self.listed = len(rows)

    def unseen_since(self, cycle: int) -> list[Key]:
        """The keys of the rows last seen in this cycle or before, sorted.

        A side that was loaded from files has its rows in another order.
        """
        stale: set[Key] = set()  # a row may be listed twice
        for seen in [c for c in self.rows_of_cycle if c <= cycle]:
            for rows in self.rows_of_cycle.pop(seen):
                self.listed -= len(rows)
                now = rows[self.seen[rows] == seen]
                stale.update(key for row in now.tolist() if (key := self.keys[row]) is not None)
        return sorted(stale)

    def _grow(self, needed: int) -> None:
        if needed <= len(self.seen):
            return
        extra = max(needed, 2 * len(self.seen), 1024) - len(self.seen)
        for name in self.COLUMNS:
            old = getattr(self, name)
            new = np.zeros((len(old) + extra, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)
