"""Assigns users to buckets by a hash of a salt and the user, the same at every visit."""

import hashlib

import numpy as np
from numpy.typing import NDArray

U64 = np.uint64


def in_treatment(users: NDArray[np.int64], salt: str, share: float) -> NDArray[np.bool_]:
    """Whether each user is in the treatment; on average `share` of all users are.

    A different salt gives an independent split.
    """
    key = int.from_bytes(hashlib.blake2b(salt.encode(), digest_size=8).digest(), "little")
    with np.errstate(over="ignore"):  # wraps modulo 2**64 on purpose
        x = (users.astype(U64) + U64(1)) * U64(0x9E3779B97F4A7C15) ^ U64(key)
        x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
        x = x ^ (x >> U64(31))
    placed: NDArray[np.bool_] = (x >> U64(11)).astype(np.float64) * 2.0**-53 < share
    return placed
