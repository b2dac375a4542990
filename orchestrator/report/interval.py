"""A mean and its 95% confidence interval, for a series that is correlated in time.

Cycles follow one another: a stormy hour costs several of them, and the champion is handed on. The
variance of the mean is therefore estimated from the series' slowest movements alone, its first B
cosine weights (the equal-weighted cosine estimator; Lazarus, Lewis, Stock and Watson, "HAR
inference: recommendations for practice", 2018), and the interval uses Student's t with B degrees of
freedom. It is as wide as a short or slow series deserves and needs no random numbers.

B is 0.6 √n. Their 0.41 n^(2/3) is meant for correlations up to 0.7 from one step to the next; at
0.9 and a week of 672 cycles it covers the mean 89 times in 100, ours 94 times, and at 0.7 ours is a
twelfth wider. Tests hold the coverage.

Pairing is respected by taking the difference of two arms cycle by cycle, and the interval of that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
FEWEST = 12
"""Cycles below which no interval is given: B is 2 there."""


FEWEST_RUNS = 3
"""Runs below which their spread says too little."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` cycles, and its bounds (NaN where there are too few)."""

    mean: float
    low: float
    high: float
    count: int

    @property
    def known(self) -> bool:
        """Whether there are bounds."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def scaled(self, factor: float) -> "Estimate":
        """In another unit."""
        low, high = sorted((self.low * factor, self.high * factor))
        return Estimate(self.mean * factor, low, high, self.count)


def mean_interval(series: ArrayLike) -> Estimate:
    """The mean of the finite entries, taken as they follow one another."""
    values = np.asarray(series, float)
    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    if n < FEWEST:
        return Estimate(mean, math.nan, math.nan, n)
    weights = cosine_weights(values)
    error = math.sqrt(float(np.mean(weights**2)) / n)
    reach = student_t(len(weights)) * error
    return Estimate(mean, mean - reach, mean + reach, n)


def share_interval(series: ArrayLike) -> Estimate:
    """The same for numbers between 0 and 1, which no bound exceeds."""
    found = mean_interval(series)
    return Estimate(found.mean, max(found.low, 0.0), min(found.high, 1.0), found.count)


def rate_interval(hits: ArrayLike) -> Estimate:
    """The share of cycles in which something happened.

    Where it never did, or always, the series says nothing of its variance; the bound is then that
    of a binomial share (0 of 60 cycles: up to 4.9%).
    """
    found = share_interval(np.asarray(hits, bool).astype(float))
    if not found.known or found.mean not in (0.0, 1.0):
        return found
    reach = 1.0 - (1.0 - CONFIDENCE) ** (1.0 / found.count)
    low, high = (0.0, reach) if found.mean == 0.0 else (1.0 - reach, 1.0)
    return Estimate(found.mean, low, high, found.count)


def interval_over_runs(values: Sequence[float]) -> Estimate:
    """The mean over runs and its interval."""
    known = np.array([value for value in values if math.isfinite(value)])
    n = len(known)
    mean = float(known.mean()) if n else math.nan
    if n < FEWEST_RUNS:
        return Estimate(mean, math.nan, math.nan, n)
    reach = student_t(n - 1) * float(known.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - reach, mean + reach, n)


def cosine_weights(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The series' weights on its B slowest cosines, each of variance n·Var(mean)."""
    n = len(values)
    slowest = np.arange(1, round(0.6 * math.sqrt(n)) + 1)
    times = (np.arange(n) + 0.5) / n
    waves = np.cos(np.pi * np.outer(slowest, times))
    weights: NDArray[np.float64] = math.sqrt(2.0 / n) * (waves @ (values - values.mean()))
    return weights


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| < t) = confidence, by bisection on the closed form for whole degrees."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """P(|T| < t) for a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3-4)."""
    angle = math.atan(t / math.sqrt(freedom))
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for i in range(odd, freedom - 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (i + 1) / (i + 2)
    if odd:
        return (angle + math.sin(angle) * total) * 2 / math.pi
    return math.sin(angle) * total
