"""A read-only copy of a model for serving: only its vectors, by feature value."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import is_not

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from divergence.jit import compiling
from orchestrator.publish.place import Version
from orchestrator.serving.kernel import Slots, click_probabilities, compose_user
from orchestrator.serving.request import Bag
from trainer.features import Feature
from trainer.initial_vectors import initial_vectors
from trainer.model import Key, Model, ModelConfig, Side
from trainer.vectors import Vectors

Unseen = Counter[tuple[str, str]]
"""How often a feature had a value that the model does not know."""

COMPARED = 10_000
"""Keys compared at a time: other threads wait meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The vectors of users or of ads."""

    features: tuple[Feature, ...]
    keys: list[Key | None]
    """The key of each row."""
    rows: tuple[dict[str, int], ...]
    """For each feature, the row of each value."""
    vectors: Vectors

    def __len__(self) -> int:
        """The number of vectors."""
        return sum(map(len, self.rows))


class Fresh:
    """Rows for the values of a request that the model does not know: their initial vectors."""

    def __init__(self, table: Table, config: ModelConfig, unseen: Unseen) -> None:
        self._table, self._config, self._unseen = table, config, unseen
        self._rows: dict[tuple[int, str], int] = {}

    def row(self, feature: int, text: str) -> int:
        """The row of an unseen value of the feature with this number on its side."""
        self._unseen[self._table.features[feature].name, text] += 1
        first = len(self._table.vectors)
        return self._rows.setdefault((feature, text), first + len(self._rows))

    def vectors(self) -> Vectors:
        """The vectors of these rows."""
        first, config = len(self._table.vectors), self._config
        made = np.empty((len(self._rows), self._table.vectors.shape[1]), np.float32)
        for number in {number for number, _ in self._rows}:
            texts = {text: row - first for (f, text), row in self._rows.items() if f == number}
            name = self._table.features[number].name
            made[list(texts.values())] = initial_vectors(
                config.seed, name, list(texts), made.shape[1], config.init_std
            )
        return made


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
        return len(self.user) + len(self.ad)

    def user_vector(self, bags: Sequence[Bag], unseen: Unseen) -> Vectors:
        """float32 [N]: the vector of a user with these feature values."""
        slots = self.slots(self.user, ([pair] for pair in enumerate(bags)), unseen)
        vector = np.empty(self.ad.vectors.shape[1], np.float32)
        compose_user(slots, self.user.vectors, self.config.overlap, vector)
        return vector

    def pctr(self, user: Vectors, ads: Slots) -> NDArray[np.float64]:
        """The click probability of a user's vector with each ad."""
        found = np.empty(len(ads.first) - 1)
        click_probabilities(user, ads, self.ad.vectors, self.bias, found)
        return found

    def slots(
        self, table: Table, parts: Iterable[Iterable[tuple[int, Bag]]], unseen: Unseen
    ) -> Slots:
        """The rows of each part: values of features, which have a number on their side."""
        fresh, first = Fresh(table, self.config, unseen), [0]
        rows, weights = list[int](), list[float]()
        for part in parts:
            for number, bag in part:
                known = table.rows[number]
                for text, weight in bag:
                    row = known.get(text)
                    rows.append(fresh.row(number, text) if row is None else row)
                    weights.append(weight)
            first.append(len(rows))
        return Slots(
            np.array(first, np.int32),
            np.array(rows, np.int32),
            np.array(weights, np.float32),
            fresh.vectors(),
        )


def snapshot(model: Model, version: Version, before: Snapshot | None = None) -> Snapshot:
    """Copy what serving needs from a model; InputError if an entry is not finite.

    Indices that have not changed since `before`, an earlier snapshot of the model, are shared.
    """
    spec, shape = model.config.spec, model.shape
    copy = Snapshot(
        version,
        model.config,
        float(model.bias[0]),
        _table(model.user, spec.user, (0, shape.user), before.user if before else None),
        _table(model.ad, spec.ad, (len(spec.user), shape.ad), before.ad if before else None),
    )
    finite = (np.isfinite(part).all() for part in (copy.bias, copy.user.vectors, copy.ad.vectors))
    if not all(finite):
        raise InputError(f"version {version.number}: has vector entries that are not finite")
    return copy


def warm_up(current: Snapshot) -> None:
    """Compile (or load) what requests need before the first one comes."""
    with compiling():
        bags: list[Bag] = [[("\0", 1.0)] for _ in current.user.features]
        user = current.user_vector(bags, Counter())
        ad: list[Bag] = [[("\0", 1.0)] for _ in current.ad.features]
        current.pctr(user, current.slots(current.ad, [enumerate(ad)], Counter()))


def _table(
    side: Side, features: tuple[Feature, ...], place: tuple[int, int], before: Table | None
) -> Table:
    """Of the features from number place[0], with vectors of length place[1]."""
    first, length = place
    vectors = np.ascontiguousarray(side.rows[: len(side.keys), 0, :length])
    keys = side.keys.copy()
    if before is None or len(before.keys) > len(keys):  # another model: it has other rows
        before = Table(features, [], tuple({} for _ in features), vectors)
    changed = _changed(keys, before.keys)
    old = {key: i for i in changed for key in before.keys[i : i + 1] if key is not None}
    new = {key: i for i in changed if (key := keys[i]) is not None}
    rows = list(before.rows)
    for number in {number for number, _ in (*old, *new)}:
        rows[number - first] = rows[number - first].copy()
    for number, text in old:
        del rows[number - first][text]
    for (number, text), i in new.items():
        rows[number - first][text] = i
    return Table(features, keys, tuple(rows), vectors)


def _changed(keys: Sequence[Key | None], old: Sequence[Key | None]) -> list[int]:
    """The rows that have another key than before."""
    found: list[int] = []
    for i in range(0, min(len(keys), len(old)), COMPARED):
        part = map(is_not, keys[i : i + COMPARED], old[i : i + COMPARED])
        found += [i + j for j, other in enumerate(part) if other]
    return [*found, *range(len(old), len(keys))]
