"""The initial vector of a value: normal entries that depend on (seed, feature, value) alone.

Every instance, process and machine draws the same one, whatever the order of the values.
"""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit


def initial_vectors(
    seed: int, feature: str, values: list[str], length: int, std: float
) -> NDArray[np.float32]:
    """float32 [values, length] of N(0, std**2)."""
    prefix = hashlib.blake2b(f"{seed}\0{feature}\0".encode(), digest_size=8)
    keys = np.empty(len(values), np.uint64)
    for i, value in enumerate(values):
        one = prefix.copy()
        one.update(value.encode())
        keys[i] = int.from_bytes(one.digest(), "little")
    vectors = np.empty((len(values), length), np.float32)
    _fill(keys, vectors, std)
    return vectors


@jit
def _fill(keys, vectors, std):  # type: ignore[no-untyped-def]
    """Box-Muller on a splitmix64 stream for each key."""
    for i in range(len(keys)):
        state = keys[i]
        for j in range(0, vectors.shape[1], 2):
            state += np.uint64(0x9E3779B97F4A7C15)
            u = _uniform(state)
            state += np.uint64(0x9E3779B97F4A7C15)
            angle = 2.0 * math.pi * _uniform(state)
            radius = std * math.sqrt(-2.0 * math.log(1.0 - u))
            vectors[i, j] = radius * math.cos(angle)
            if j + 1 < vectors.shape[1]:
                vectors[i, j + 1] = radius * math.sin(angle)


@jit
def _uniform(z):  # type: ignore[no-untyped-def]
    """[0, 1) from splitmix64's finaliser."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
