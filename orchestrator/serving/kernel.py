"""The compiled part of scoring: one call for one user with many ads."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit


class Slots(NamedTuple):
    """Which vectors make up something: the features of a user, or the ads of a request.

    Part i is the weighted sum of the entries first[i] up to first[i + 1]. A row past the end of the
    table is a row of `fresh`, the vectors of values that the model does not know.
    """

    first: NDArray[np.int32]
    rows: NDArray[np.int32]
    weights: NDArray[np.float32]
    fresh: NDArray[np.float32]


@jit
def _sum_of(i: int, slots: Slots, table: NDArray[np.float32], total: NDArray[np.float32]) -> None:
    """The vector of part i."""
    total[:] = 0.0
    for j in range(slots.first[i], slots.first[i + 1]):
        row, weight = slots.rows[j], slots.weights[j]
        vector = table[row] if row < len(table) else slots.fresh[row - len(table)]
        for k in range(len(total)):
            total[k] += weight * vector[k]


@jit
def compose_user(
    slots: Slots, table: NDArray[np.float32], overlap: int, vector: NDArray[np.float32]
) -> None:
    """The user's vector from those of the features: products of pairs, then lone entries."""
    features, length = len(slots.first) - 1, table.shape[1]
    parts = np.empty((features, length), np.float32)
    for i in range(features):
        _sum_of(i, slots, table, parts[i])
    at, shared = 0, (features - 1) * overlap
    for p in range(features):
        for q in range(p + 1, features):
            for j in range(overlap):
                vector[at] = parts[p, (q - 1) * overlap + j] * parts[q, p * overlap + j]
                at += 1
    for p in range(features):
        for j in range(shared, length):
            vector[at] = parts[p, j]
            at += 1


@jit
def click_probabilities(
    user: NDArray[np.float32],
    ads: Slots,
    table: NDArray[np.float32],
    bias: float,
    pctr: NDArray[np.float64],
) -> None:
    """1 / (1 + exp(-(b + nu_u . nu_a))) of a user's vector with each ad."""
    vector = np.empty(len(user), np.float32)
    for i in range(len(pctr)):
        _sum_of(i, ads, table, vector)
        logit = bias
        for k in range(len(user)):
            logit += user[k] * vector[k]
        decay = math.exp(-abs(logit))
        pctr[i] = (1.0 if logit >= 0 else decay) / (1.0 + decay)
