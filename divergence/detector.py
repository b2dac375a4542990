"""Norms of latent vectors: which one got away, and how large they are."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Norms(NamedTuple):
    """Of each vector, the largest |entry| and the mean square. NaN where an entry is NaN."""

    inf: NDArray[np.float32]
    msqr: NDArray[np.float32]


def norms(vectors: NDArray[np.float32]) -> Norms:
    """Norms of float32 [vectors, length]."""
    if vectors.size == 0:
        nothing = np.zeros(len(vectors), np.float32)
        return Norms(nothing, nothing)
    inf = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    return Norms(inf, np.einsum("ij,ij->i", vectors, vectors) / np.float32(vectors.shape[1]))


def first_offender(vectors: NDArray[np.float32], tau: float) -> int | None:
    """The vector that is not below tau and worst: not finite before large, then the first."""
    inf = norms(vectors).inf
    if np.all(inf < tau):
        return None
    return int(np.argmax(np.where(np.isnan(inf), np.inf, inf)))
