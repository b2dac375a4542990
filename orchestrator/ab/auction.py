"""A generalized second-price auction for one slot: ads are ranked by bid times predicted CTR."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainer.vectors import Vectors

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


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


def candidates(requests: int, eligible: int, most: int | None, rng: np.random.Generator) -> Numbers:
    """(requests, candidates): for each request, distinct numbers below `eligible`.

    All of them, or `most` neighbours on a ring whose order is drawn once per call.
    """
    if most is None or most >= eligible:
        return np.broadcast_to(np.arange(eligible), (requests, eligible))
    ring = rng.permutation(eligible)
    first = rng.integers(0, eligible, requests)
    drawn: Numbers = ring[(first[:, None] + np.arange(most)) % eligible]
    return drawn


def predicted(users: Vectors, ads: Vectors, bias: float, shown: Numbers) -> Floats:
    """Predicted CTRs, (requests, candidates): each user with the ads in its row of `shown`."""
    logits = np.take_along_axis(users @ ads.T, shown, axis=1) + np.float32(bias)
    return 1.0 / (1.0 + np.exp(-logits.astype(np.float64)))
