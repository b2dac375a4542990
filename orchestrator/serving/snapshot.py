"""A read-only copy of a model for serving: only its vectors, by feature value."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.publish.place import Version
from orchestrator.serving.request import Bag
from trainer.initial_vectors import initial_vectors
from trainer.model import Key, Model, ModelConfig, Side
from trainer.vectors import Vectors, user_vectors


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The vectors of users or of ads."""

    first: int
    """The number of the first feature of this side."""
    row: dict[Key, int]
    vectors: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """One version of a model. Threads may share it."""

    version: Version
    config: ModelConfig
    bias: float
    user: Table
    ad: Table

    def __len__(self) -> int:
        """The number of vectors."""
        return len(self.user.row) + len(self.ad.row)

    def user_vector(self, bags: Sequence[Bag]) -> Vectors:
        """float32 [N]: the vector of a user with these feature values."""
        vector: Vectors = user_vectors(self._means(self.user, [bags]), self.config.shape)[0]
        return vector

    def ad_vectors(self, ads: Sequence[Sequence[Bag]]) -> Vectors:
        """float32 [ads, N]: for each ad, the sum of its features' vectors."""
        total: Vectors = self._means(self.ad, ads).sum(axis=1)
        return total

    def logits(self, user: Sequence[Bag], ads: Sequence[Sequence[Bag]]) -> NDArray[np.float32]:
        """b + nu_u . nu_a of one user for each ad."""
        found: NDArray[np.float32] = self.ad_vectors(ads) @ self.user_vector(user)
        return found + np.float32(self.bias)

    def _means(self, table: Table, owners: Sequence[Sequence[Bag]]) -> Vectors:
        """[owners, features, length]: the weighted mean of each feature's vectors."""
        keys = [
            (table.first + number, text)
            for bags in owners
            for number, bag in enumerate(bags)
            for text, _ in bag
        ]
        vectors = self._lookup(table, keys)
        features = len(owners[0])
        if len(keys) > features * len(owners):  # some feature has several values
            lengths = [len(bag) for bags in owners for bag in bags]
            weights = [weight for bags in owners for bag in bags for _, weight in bag]
            weighted = vectors * np.array(weights, np.float32)[:, None]
            first = np.cumsum([0, *lengths[:-1]])
            vectors = np.add.reduceat(weighted, first, axis=0)
        return vectors.reshape(len(owners), features, -1)

    def _lookup(self, table: Table, keys: Sequence[Key]) -> Vectors:
        """The vector of each key; for an unseen value, its initial vector."""
        get = table.row.get
        rows = [get(key, -1) for key in keys]
        if min(rows) >= 0:
            return table.vectors[rows]
        vectors = np.empty((len(rows), table.vectors.shape[1]), np.float32)
        known = [i for i, row in enumerate(rows) if row >= 0]
        vectors[known] = table.vectors[[rows[i] for i in known]]
        config = self.config
        for i in (i for i, row in enumerate(rows) if row < 0):
            number, text = keys[i]
            name = config.spec.features[number].name
            vectors[i] = initial_vectors(
                config.seed, name, [text], vectors.shape[1], config.init_std
            )[0]
        return vectors


def snapshot(model: Model, version: Version) -> Snapshot:
    """Copy what serving needs from a model; InputError if an entry is not finite."""
    users = len(model.config.spec.user)
    copy = Snapshot(
        version,
        model.config,
        float(model.bias[0]),
        _table(model.user, 0, model.shape.user),
        _table(model.ad, users, model.shape.ad),
    )
    finite = (np.isfinite(part).all() for part in (copy.bias, copy.user.vectors, copy.ad.vectors))
    if not all(finite):
        raise InputError(f"version {version.number}: has vector entries that are not finite")
    return copy


def _table(side: Side, first: int, length: int) -> Table:
    rows = len(side.keys)
    return Table(first, side.index.copy(), np.ascontiguousarray(side.rows[:rows, 0, :length]))
