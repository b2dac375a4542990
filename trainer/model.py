"""The model: every vector that is alive, keyed by (feature, value).

Rows are in arrays that grow; a dictionary finds them. The cost of a cycle depends on the values in
its chunk, not on the size of the model.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from divergence.detector import norms
from divergence.simd import padded
from trainer.chunk import Chunk, Keys
from trainer.features import FeatureSpec
from trainer.geometry import PARTS, Shape, shape_of
from trainer.initial_vectors import initial_vectors
from trainer.kernel import Tables
from trainer.key_index import Key as Key
from trainer.key_index import KeyIndex


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The structure of a model. Models with equal configs can replace each other."""

    spec: FeatureSpec
    overlap: int
    alone: int
    init_std: float = 0.15
    seed: int = 0

    @property
    def shape(self) -> Shape:
        """The vectors' lengths."""
        return shape_of(self.spec, self.overlap, self.alone)


class Side(KeyIndex):
    """The rows of the user features or of the ad features, with all data of each vector."""

    COLUMNS = (*KeyIndex.COLUMNS, "rows", "mu", "_inf", "_msqr", "_stale")

    def __init__(self, width: int):
        """No rows, of vectors padded to `width`."""
        super().__init__()
        self.rows = np.zeros((0, PARTS, width), np.float32)
        self.mu = np.zeros(0, np.float32)
        self._inf = np.zeros(0, np.float32)
        self._msqr = np.zeros(0, np.float32)
        self._stale = np.zeros(0, np.bool_)
        """Whether the norms of a row are of an earlier vector."""
        self._length = width

    @property
    def inf(self) -> NDArray[np.float32]:
        """The largest |entry| of each row, 0 for rows that are free."""
        self._measure()
        return self._inf

    @property
    def msqr(self) -> NDArray[np.float32]:
        """The mean square of each row."""
        self._measure()
        return self._msqr

    def remove(self, key: Key) -> int:
        """Forget a vector; returns its row."""
        row = super().remove(key)
        self._inf[row] = self._msqr[row] = 0.0
        self._stale[row] = False
        return row

    def write(
        self,
        at: NDArray[np.int64],
        rows: NDArray[np.float32],
        mu: NDArray[np.float32],
        length: int,
    ) -> None:
        """Set the vectors, sums and multipliers of these rows."""
        self.rows[at], self.mu[at] = rows, mu
        self._stale[at], self._length = True, length

    def _measure(self) -> None:
        """Norms are computed when they are asked for: no actor waits for them."""
        at = np.flatnonzero(self._stale)
        if len(at):
            self._inf[at], self._msqr[at] = norms(self.rows[at][:, 0, : self._length])
            self._stale[at] = False


@dataclass(frozen=True)
class WorkingSet:
    """The rows that a chunk touches, in the chunk's order, from one model.

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
    """What a cycle changed in a model: the rows it wrote, and the keys it dropped."""

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

    @property
    def is_new(self) -> bool:
        """Whether it has seen nothing. One that starts from another run has vectors already."""
        return self.cycle < 0 and not len(self)

    def gather(
        self, chunk: Chunk, cycle: int, *, mu0: float = 0.0, sums_kept: float = 1.0
    ) -> WorkingSet:
        """The working set of a chunk; the model itself does not change.

        New values get their initial vector and `mu0`. AdaGrad's sums are multiplied by
        `sums_kept` for every cycle since a row was last seen (1 keeps them, 0 resets them).
        """
        at = self.user.find(chunk.user_keys), self.ad.find(chunk.ad_keys)
        return self.working_set(chunk, cycle, at, mu0=mu0, sums_kept=sums_kept)

    def working_set(
        self,
        chunk: Chunk,
        cycle: int,
        at: tuple[NDArray[np.int64], NDArray[np.int64]],
        *,
        mu0: float,
        sums_kept: float,
    ) -> WorkingSet:
        """As `gather`, where it is known in which rows the user and the ad keys are."""
        user = self._gather_side(self.user, chunk.user_keys, at[0], cycle, mu0, sums_kept)
        ad = self._gather_side(self.ad, chunk.ad_keys, at[1], cycle, mu0, sums_kept)
        scratch = np.zeros((self.shape.features, *user[0].shape[1:]), np.float32)
        bias = self.bias.copy()
        bias[1] *= sums_kept ** (cycle - self.cycle) if self.cycle >= 0 else 1.0
        flat_user = np.concatenate([user[0], scratch]).reshape(-1)
        tables = Tables(flat_user, ad[0].reshape(-1), user[1], ad[1], bias)
        for array in tables:
            array.setflags(write=False)
        return WorkingSet(tables, *at)

    def found(self, chunk: Chunk, trained: Tables) -> WorkingSet:
        """Rows that another process has gathered and trained, and where in this model they are."""
        return WorkingSet(trained, self.user.find(chunk.user_keys), self.ad.find(chunk.ad_keys))

    def norms(self) -> tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]:
        """The largest |entry| and the mean square of each row, of user features and ad features."""
        return tuple((side.inf, side.msqr) for side in (self.user, self.ad))

    def vectors(self, side: Side, keys: Keys) -> NDArray[np.float32]:
        """float32 [keys, length]: the vectors of one side's keys, initial ones for new keys."""
        rows, _ = self._gather_side(side, keys, side.find(keys), self.cycle, 0.0, 1.0)
        return rows[:, 0, : self.shape.user if side is self.user else self.shape.ad]

    def scatter(self, chunk: Chunk, cycle: int, before: WorkingSet, trained: Tables) -> Changes:
        """Write an instance's rows into the model, after it has trained on the complete chunk."""
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
        """Reset the multiplier of every vector."""
        for side in (self.user, self.ad):
            side.mu[:] = mu

    def drop(self, keys: Iterable[Key]) -> None:
        """Forget these vectors."""
        users = len(self.config.spec.user)
        for key in keys:
            (self.user if key[0] < users else self.ad).remove(key)

    def _gather_side(
        self,
        side: Side,
        keys: Keys,
        at: NDArray[np.int64],
        cycle: int,
        mu0: float,
        sums_kept: float,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        old, new = np.flatnonzero(at >= 0), np.flatnonzero(at < 0)
        if len(old):
            rows, mu = side.rows[at], side.mu[at]  # the rows of new keys are overwritten below
            rows[new], mu[new] = 0.0, mu0
        else:
            rows = np.zeros((len(at), *side.rows.shape[1:]), np.float32)
            mu = np.full(len(at), mu0, np.float32)
        if sums_kept != 1.0:
            age = (cycle - side.seen[at[old]]).astype(np.float64)
            rows[old, 1:] *= (sums_kept**age).astype(np.float32)[:, None, None]
        length = self.shape.user if side is self.user else self.shape.ad
        if len(new):
            rows[new, 0, :length] = new_vectors(self.config, keys, new, length)
        return rows, mu


def new_vectors(
    config: ModelConfig, keys: Keys, new: NDArray[np.int64], length: int
) -> NDArray[np.float32]:
    """float32 [new, length]: the initial vectors of those keys that `new` numbers."""
    vectors = np.zeros((len(new), length), np.float32)
    for number, feature in enumerate(config.spec.features):
        mine = np.flatnonzero(keys.feature[new] == number)
        if len(mine):
            values = [keys.values[i] for i in new[mine]]
            vectors[mine] = initial_vectors(
                config.seed, feature.name, values, length, config.init_std
            )
    return vectors
