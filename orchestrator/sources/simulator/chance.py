"""Every random number is a hash of what it belongs to, so that no state is kept.

All randomness is `roll(key, stream, index)`, a counter-based generator: any value at any time is
computed without those before it. Three processes are built on it, each in O(1): `renewal` (one
thing replaces another), `away` (absent for a while) and `drifting` (slow change).
"""

import math

import numpy as np

from divergence.jit import jit
from orchestrator.sources.simulator.state import Floats

U64 = np.uint64
GOLDEN = U64(0x9E3779B97F4A7C15)
SILVER = U64(0xD1B54A32D192ED03)  # another odd number without a pattern
JITTER = 0.8  # lives last their period +-80%

# Streams: what a roll is for. numpy integers, since numba would compile `roll` again for each int.
PHASE, BIRTH, BEGIN, LENGTH, FIXED, KNOT, SHOCK, HIT, JUMP = map(np.int64, range(9))
TRAITS, DEVICE, INTEREST, TOPIC, WEIGHT, LAST_CLICK = map(np.int64, range(10, 16))
PLACE, IDENTITY, ADVERTISER, CATEGORY, POPULARITY, BID = map(np.int64, range(20, 26))
PAUSE, FLAG, BUDGET = map(np.int64, range(26, 29))
CREATIVE, QUALITY, VISITOR, SERVED, CLICK, WHIM, CLIQUE = map(np.int64, range(30, 37))


@jit
def mix(x: np.uint64) -> np.uint64:
    """The finaliser of splitmix64."""
    x = (x ^ (x >> U64(30))) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> U64(27))) * U64(0x94D049BB133111EB)
    return x ^ (x >> U64(31))


@jit
def roll(key: np.uint64, stream: np.int64, index: int) -> np.uint64:
    """64 random bits that depend on (key, stream, index) alone; the key must itself be rolled."""
    return mix(key + GOLDEN * U64(index) + SILVER * U64(stream + 1))


@jit
def uniform(bits: np.uint64) -> float:
    """In [0, 1), from the upper 53 bits."""
    return float(bits >> U64(11)) * 2.0**-53


@jit
def normal(bits: np.uint64) -> float:
    """Mean 0, variance 1, within 3.5: the sum of four 16-bit uniforms. No libm, so exact."""
    low = (bits & U64(0xFFFF)) + ((bits >> U64(16)) & U64(0xFFFF))
    high = ((bits >> U64(32)) & U64(0xFFFF)) + (bits >> U64(48))
    return (float(low + high) - 131070.0) * (math.sqrt(3.0) / 65536.0)


@jit
def renewal(key: np.uint64, now_h: float, period_h: float) -> tuple[int, float]:
    """(number, birth in hours) of what lives now, where lives follow each other on a jittered grid.

    Lives last `period_h` on average, and (1 +- JITTER) times that at the extremes.
    """
    phase = uniform(roll(key, PHASE, 0))
    x = now_h / period_h + phase
    number = math.floor(x)
    birth = number + JITTER * uniform(roll(key, BIRTH, number))
    if x < birth:
        number -= 1
        birth = number + JITTER * uniform(roll(key, BIRTH, number))
    return number, (birth - phase) * period_h


@jit
def away(key: np.uint64, now_h: float, per_day: float, hours: float) -> bool:
    """Whether it is absent now: it is so `per_day` times a day for 0.5 to 1.5 times `hours`."""
    if per_day == 0.0:
        return False
    x = now_h * per_day / 24.0 + uniform(roll(key, PHASE, 0))
    number = math.floor(x)
    length = hours * per_day / 24.0 * (0.5 + uniform(roll(key, LENGTH, number)))
    begin = uniform(roll(key, BEGIN, number)) * (1.0 - length)
    return begin <= x - number < begin + length


@jit
def drifting(key: np.uint64, column: int, now_h: float, period_h: float, share: float) -> float:
    """Mean 0, variance 1 at all times; `share` of the variance is renewed every `period_h`."""
    x = now_h / period_h + uniform(roll(key, PHASE, 0))
    knot = math.floor(x)
    turn = 0.5 * math.pi * (x - knot)
    here = normal(roll(roll(key, KNOT, knot), KNOT, column))
    there = normal(roll(roll(key, KNOT, knot + 1), KNOT, column))
    moving = math.cos(turn) * here + math.sin(turn) * there
    return math.sqrt(1.0 - share) * normal(roll(key, FIXED, column)) + math.sqrt(share) * moving


@jit
def drifting_rows(
    key: np.uint64, shape: tuple[int, int], now_h: float, period_h: float, share: float
) -> Floats:
    """A table of drifting numbers; each row drifts in its own phase."""
    table = np.empty(shape)
    for row in range(shape[0]):
        row_key = roll(key, FIXED, row)
        for column in range(shape[1]):
            table[row, column] = drifting(row_key, column, now_h, period_h, share)
    return table
