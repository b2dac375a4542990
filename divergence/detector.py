"""Norms of latent vectors, and which vector has diverged."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGE = 1 / 3
"""As a share of tau: from this largest |entry| on, a vector counts as exceptionally large."""


class Norms(NamedTuple):
    """The largest |entry| and the mean square of each vector. NaN where an entry is NaN."""

    inf: NDArray[np.float32]
    msqr: NDArray[np.float32]


def norms(vectors: NDArray[np.float32]) -> Norms:
    """Norms of float32 [vectors, length]."""
    if vectors.size == 0:
        nothing = np.zeros(len(vectors), np.float32)
        return Norms(nothing, nothing)
    inf = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    return Norms(inf, np.einsum("ij,ij->i", vectors, vectors) / np.float32(vectors.shape[1]))


def worst_vector(vectors: NDArray[np.float32], tau: float) -> int | None:
    """The worst vector that is not below tau, or None: one that is not finite, else the largest.

    The first one where several are equally bad.
    """
    inf = norms(vectors).inf
    if np.all(inf < tau):
        return None
    return int(np.argmax(np.where(np.isnan(inf), np.inf, inf)))
