"""A generalized second-price auction for one slot: ads are ranked by bid times predicted CTR."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Vectors = NDArray[np.float32]


class Sold(NamedTuple):
    """The winner of each request (a column of its candidates) and the price of a click on it."""

    winner: Numbers
    price_usd: Floats


def hold(pctr: Floats, bid_usd: Floats, reserve_usd: float) -> Sold:
    """Sell one slot for each request; pctr and bid_usd: (requests, candidates).

    For a click, the winner pays the lowest bid that would still have won: the second-highest score
    divided by its own predicted CTR, at least the reserve and at most its bid. Ads that bid less
    than the reserve win only if no other ad bids enough, and pay their bid.
    """
    score = np.where(bid_usd >= reserve_usd, bid_usd * pctr, 0.0)
    rows = np.arange(len(score))
    winner = score.argmax(axis=1)
    second = np.zeros(len(score))
    if score.shape[1] > 1:
        second = np.partition(score, -2, axis=1)[:, -2]
    bid = bid_usd[rows, winner]
    enough = second / np.maximum(pctr[rows, winner], np.finfo(float).tiny)
    return Sold(winner, np.minimum(bid, np.maximum(enough, reserve_usd)))


def candidates(
    requests: int, eligible: int, most: int | None, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """The ads below `eligible` on a ring, and the places on it that bid for each request.

    The places, (requests, candidates), are a run of `most` neighbours from a random place on, or
    the entire ring. Its order is drawn once per call.
    """
    if most is None or most >= eligible:
        everything = np.arange(eligible)
        return everything, np.broadcast_to(everything, (requests, eligible))
    ring = rng.permutation(eligible)
    first = rng.integers(0, eligible, requests)
    return ring, (first[:, None] + np.arange(most)) % eligible


def predicted(users: Vectors, ads: Vectors, bias: float, places: Numbers) -> Floats:
    """Predicted CTRs, (requests, candidates): each user with the ads in its row of `places`.

    `ads` are on a ring, and each row is a run of neighbours, as `candidates` gives them.
    """
    most = places.shape[1]
    unrolled = np.ascontiguousarray(np.concatenate([ads, ads[: most - 1]]).T)
    logits = np.zeros(places.shape, np.float32)
    add_products(users, unrolled, places[:, :1].ravel(), logits)
    return 1.0 / (1.0 + np.exp(-(logits + np.float32(bias)).astype(np.float64)))


@jit
def add_products(users: Vectors, ads: Vectors, first: Numbers, logits: Vectors) -> None:
    """Add users[i] @ ads[:, first[i] + j] to logits[i, j]."""
    for i in range(len(users)):
        for k in range(len(ads)):
            weight = users[i, k]
            for j in range(logits.shape[1]):
                logits[i, j] += weight * ads[k, first[i] + j]
