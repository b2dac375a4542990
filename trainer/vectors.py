"""The complete vectors of users and ads, outside the kernel: serving scores one user on many ads.

The logit is the bias plus the product of the two vectors. It equals the kernel's logit except for
the order of float32 additions.
"""

from functools import cache
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainer.chunk import compile_side
from trainer.geometry import Shape
from trainer.kernel import EventRows
from trainer.model import Model

Vectors = NDArray[np.float32]


def user_vectors(features: Vectors, shape: Shape) -> Vectors:
    """float32 [n, N] of users from their features' vectors, [n, K, d]: pairs, then lone entries."""
    flat = features.reshape(len(features), -1)
    left, right, alone = _places(shape.features, shape.overlap, shape.alone)
    return np.concatenate([flat[:, left] * flat[:, right], flat[:, alone]], axis=1)


def side_vectors(model: Model, table: pa.Table, side: Literal["user", "ad"]) -> Vectors:
    """float32 [rows, N]: the user's or the ad's vector of every row of a table.

    The table needs that side's columns only, as `check_events` returns them.
    """
    spec, shape = model.config.spec, model.shape
    if side == "user":
        slots, keys = compile_side(table, spec.user, 0, single=False)
        values = model.vectors(model.user, keys)
        return user_vectors(_means(values, slots, len(spec.user)), shape)
    slots, keys = compile_side(table, spec.ad, len(spec.user), single=False)
    ads: Vectors = _means(model.vectors(model.ad, keys), slots, len(spec.ad)).sum(axis=1)
    return ads


def _means(values: Vectors, slots: EventRows, features: int) -> Vectors:
    """[rows, features, length]: each feature's weighted mean; every feature has a slot."""
    row = np.repeat(np.arange(len(slots.start) - 1), np.diff(slots.start))
    place = row * features + slots.feature
    sums = values[slots.row] * slots.weight[:, None]
    first = np.flatnonzero(np.diff(place, prepend=-1))
    if len(first) < len(sums):  # a feature with several values
        sums = np.add.reduceat(sums, first, axis=0)
    return sums.reshape(-1, features, values.shape[1])


@cache
def _places(k: int, o: int, s: int) -> tuple[NDArray[np.int64], ...]:
    """Where in the K vectors, side by side, the factors of each pair and the lone entries are."""
    length = (k - 1) * o + s
    pairs = [(p, q) for p in range(k) for q in range(p + 1, k)]
    left = [p * length + (q - 1) * o + j for p, q in pairs for j in range(o)]
    right = [q * length + p * o + j for p, q in pairs for j in range(o)]
    alone = [i * length + (k - 1) * o + j for i in range(k) for j in range(s)]
    return tuple(np.array(places, np.int64) for places in (left, right, alone))
