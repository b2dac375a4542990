"""The model: every vector that is alive, keyed by (feature, value).

Rows live in growing arrays; a dictionary per feature finds them. What a cycle costs follows the
values that its chunk touches, never the size of the model.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from divergence.detector import norms
from divergence.simd import padded
from trainer.chunk import Chunk, Keys
from trainer.draw import first_vectors
from trainer.features import FeatureSpec
from trainer.geometry import PARTS, Shape, shape_of
from trainer.kernel import Tables

Key = tuple[int, str]
"""A feature's number (user features first) and a value."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a model is made of. Two models with equal configs can stand in for each other."""

    spec: FeatureSpec
    overlap: int
    alone: int
    init_std: float = 0.05
    seed: int = 0

    @property
    def shape(self) -> Shape:
        """The vectors' lengths."""
        return shape_of(self.spec, self.overlap, self.alone)


class Side:
    """The rows of the user features or of the ad features, with all that belongs to a vector."""

    def __init__(self, width: int):
        """No rows, of vectors padded to `width`."""
        self.rows = np.zeros((0, PARTS, width), np.float32)
        self.mu = np.zeros(0, np.float32)
        self.updates = np.zeros(0, np.int64)
        self.seen = np.zeros(0, np.int32)
        self.inf = np.zeros(0, np.float32)
        self.msqr = np.zeros(0, np.float32)
        self.keys: list[Key | None] = []
        self.index: dict[Key, int] = {}
        self.free: list[int] = []
        self.last: dict[int, list[NDArray[np.int64]]] = {}  # rows by a cycle that saw them
        self.noted = 0  # rows in `last`, those seen again later included

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

    def remove(self, key: Key) -> None:
        """Forget a vector."""
        row = self.index.pop(key)
        self.keys[row] = None
        self.inf[row] = self.msqr[row] = 0.0
        self.free.append(row)

    def write(
        self,
        at: NDArray[np.int64],
        rows: NDArray[np.float32],
        mu: NDArray[np.float32],
        length: int,
    ) -> None:
        """Set the vectors, sums and multipliers of these rows."""
        self.rows[at], self.mu[at] = rows, mu
        self.inf[at], self.msqr[at] = norms(rows[:, 0, :length])

    def touch(self, rows: NDArray[np.int64], cycle: int) -> None:
        """These rows are seen in this cycle."""
        self.seen[rows] = cycle
        self.last.setdefault(cycle, []).append(rows)
        self.noted += len(rows)
        if self.noted > 8 * len(self.keys) + 1024:  # mostly notes that later cycles have overtaken
            alive = self.alive()
            self.touch_each(alive, self.seen[alive])

    def touch_each(self, rows: NDArray[np.int64], seen: NDArray[np.int32]) -> None:
        """Each of these rows, all that count, is seen in its own cycle."""
        self.seen[rows] = seen
        order = np.argsort(seen, kind="stable")
        cycles, first = np.unique(seen[order], return_index=True)
        groups = np.split(rows[order], first)[1:]  # none where there are no rows
        self.last = {int(c): [group] for c, group in zip(cycles, groups, strict=True)}
        self.noted = len(rows)

    def unseen_since(self, cycle: int) -> list[Key]:
        """The keys of the rows last seen in this cycle or before, sorted.

        A side that was loaded from files has its rows in another order.
        """
        stale: set[Key] = set()  # a cycle may have been noted twice
        for seen in [c for c in self.last if c <= cycle]:
            for rows in self.last.pop(seen):
                self.noted -= len(rows)
                now = rows[self.seen[rows] == seen]
                stale.update(key for row in now.tolist() if (key := self.keys[row]) is not None)
        return sorted(stale)

    def _grow(self, needed: int) -> None:
        if needed <= len(self.mu):
            return
        extra = max(needed, 2 * len(self.mu), 1024) - len(self.mu)
        for name in ("rows", "mu", "updates", "seen", "inf", "msqr"):
            old = getattr(self, name)
            new = np.zeros((len(old) + extra, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)


@dataclass(frozen=True)
class WorkingSet:
    """The rows that a chunk touches, in the chunk's order, gathered from one model.

    `user_rows` and `ad_rows` say where in the model they are, -1 for values it has not seen.
    """

    tables: Tables
    user_rows: NDArray[np.int64]
    ad_rows: NDArray[np.int64]


def rows_of(tables: Tables, shape: Shape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The user rows (without the scratch rows) and the ad rows, [rows, 3, padded length]."""
    user = tables.user.reshape(-1, PARTS, shape.user_padded)[: -shape.features]
    return user, tables.ad.reshape(-1, PARTS, shape.ad_padded)


def vectors_of(tables: Tables, shape: Shape) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The user vectors and the ad vectors, [rows, length]."""
    user, ad = rows_of(tables, shape)
    return user[:, 0, : shape.user], ad[:, 0, : shape.ad]


@dataclass(frozen=True)
class Changes:
    """What a cycle did to a model: the rows it wrote, and the keys it dropped."""

    since: int
    """The cycle of the model before."""
    user_rows: NDArray[np.int64]
    ad_rows: NDArray[np.int64]
    dropped: tuple[Key, ...] = ()

    def with_dropped(self, dropped: tuple[Key, ...]) -> "Changes":
        """The same with these keys dropped."""
        return replace(self, dropped=self.dropped + dropped)


class Model:
    """All vectors, the bias and its sum."""

    def __init__(self, config: ModelConfig):
        """A model that has seen nothing."""
        self.config = config
        self.shape = config.shape
        self.user = Side(padded(self.shape.user))
        self.ad = Side(padded(self.shape.ad))
        self.bias = np.zeros(2, np.float64)
        self.cycle = -1

    def __len__(self) -> int:
        """How many vectors are alive."""
        return len(self.user) + len(self.ad)

    def gather(
        self, chunk: Chunk, cycle: int, *, mu0: float = 0.0, sums_kept: float = 1.0
    ) -> WorkingSet:
        """The working set of a chunk; the model itself does not change.

        New values get their first vector and `mu0`. AdaGrad's sums are multiplied by
        `sums_kept` for every cycle since a row was last seen (1 keeps them, 0 resets them).
        """
        user, user_rows = self._gather_side(self.user, chunk.user_keys, cycle, mu0, sums_kept)
        ad, ad_rows = self._gather_side(self.ad, chunk.ad_keys, cycle, mu0, sums_kept)
        scratch = np.zeros((self.shape.features, *user[0].shape[1:]), np.float32)
        bias = self.bias.copy()
        bias[1] *= sums_kept ** (cycle - self.cycle) if self.cycle >= 0 else 1.0
        flat_user = np.concatenate([user[0], scratch]).reshape(-1)
        tables = Tables(flat_user, ad[0].reshape(-1), user[1], ad[1], bias)
        for array in tables:
            array.setflags(write=False)
        return WorkingSet(tables, user_rows, ad_rows)

    def vectors(self, side: Side, keys: Keys) -> NDArray[np.float32]:
        """float32 [keys, length]: the vectors of one side's keys, new ones as first drawn."""
        (rows, _), _ = self._gather_side(side, keys, self.cycle, 0.0, 1.0)
        return rows[:, 0, : self.shape.user if side is self.user else self.shape.ad]

    def scatter(self, chunk: Chunk, cycle: int, before: WorkingSet, trained: Tables) -> Changes:
        """Take over an instance's rows after it has trained on the whole chunk."""
        changed, since = [], self.cycle
        user, ad = rows_of(trained, self.shape)
        for side, keys, rows, found, mu, length in (
            (self.user, chunk.user_keys, user, before.user_rows, trained.user_mu, self.shape.user),
            (self.ad, chunk.ad_keys, ad, before.ad_rows, trained.ad_mu, self.shape.ad),
        ):
            at = found.copy()
            new = np.flatnonzero(at < 0)
            at[new] = side.insert(keys.pairs[i] for i in new)
            side.write(at, rows, mu, length)
            side.updates[at] = np.where(found < 0, 0, side.updates[at]) + keys.count
            side.touch(at, cycle)
            changed.append(at)
        self.bias[:] = trained.bias
        self.cycle = cycle
        return Changes(since, changed[0], changed[1])

    def expire(self, before_cycle: int) -> tuple[Key, ...]:
        """Drop the vectors last seen in this cycle or before; return their keys."""
        stale = self.user.unseen_since(before_cycle) + self.ad.unseen_since(before_cycle)
        self.drop(stale)
        return tuple(stale)

    def set_mu(self, mu: float) -> None:
        """Begin anew with the multiplier of every vector."""
        for side in (self.user, self.ad):
            side.mu[:] = mu

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget these vectors."""
        users = len(self.config.spec.user)
        for key in keys:
            (self.user if key[0] < users else self.ad).remove(key)

    def _gather_side(
        self, side: Side, keys: Keys, cycle: int, mu0: float, sums_kept: float
    ) -> tuple[tuple[NDArray[np.float32], NDArray[np.float32]], NDArray[np.int64]]:
        at = side.find(keys)
        old, new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        if len(old):
            rows, mu = side.rows[at], side.mu[at]  # of a new one, whatever stands last
            rows[new], mu[new] = 0.0, mu0
        else:
            rows = np.zeros((len(at), *side.rows.shape[1:]), np.float32)
            mu = np.full(len(at), mu0, np.float32)
        if sums_kept != 1.0:
            age = (cycle - side.seen[at[old]]).astype(np.float64)
            rows[old, 1:] *= (sums_kept**age).astype(np.float32)[:, None, None]
        length = self.shape.user if side is self.user else self.shape.ad
        config = self.config
        for number, feature in enumerate(config.spec.features):
            mine = new[keys.feature[new] == number]
            if len(mine):
                values = [keys.values[i] for i in mine]
                first = first_vectors(config.seed, feature.name, values, length, config.init_std)
                rows[mine, 0, :length] = first
        return (rows, mu), at
