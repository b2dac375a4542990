"""A mean and its 95% confidence interval, for a series that is correlated in time.

Successive cycles are correlated: a stormy hour affects several cycles, and each starts from the
champion of the last. The variance of the mean is therefore estimated from the slowest movements of
the series only, its first B cosine weights (the equal-weighted cosine estimator; Lazarus, Lewis,
Stock and Watson, "HAR inference: recommendations for practice", 2018). The interval uses Student's
t with B degrees of freedom, so it is wide where the series is short or slow. It needs no random
numbers.

B is 0.6 √n. Their 0.41 n^(2/3) is meant for correlations up to 0.7 from one step to the next. At
0.9 and a week of 672 cycles, theirs covers the mean 89 times in 100 and ours 94 times; at 0.7 ours
is a twelfth wider. Tests check the coverage.

To compare two arms, take their difference cycle by cycle and the interval of that series.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
MIN_CYCLES = 12
"""With fewer cycles there is no interval; here B is 2."""
MIN_RUNS = 3
"""With fewer runs there is no interval over runs."""
MAX_CYCLES = 1_000_000
"""The most that `cycles_for` answers."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over `count` cycles, and its bounds (NaN if there are too few)."""

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

    def within(self, low: float, high: float) -> "Estimate":
        """With its bounds clipped to what is possible; the mean stays inside."""
        lower, upper = max(self.low, low), min(self.high, high)
        return Estimate(self.mean, min(lower, self.mean), max(upper, self.mean), self.count)


def mean_interval(series: ArrayLike) -> Estimate:
    """The mean of the finite entries of a series in time order, and its interval."""
    values = np.asarray(series, float)
    values = values[np.isfinite(values)]
    n = len(values)
    mean = float(values.mean()) if n else math.nan
    if n < MIN_CYCLES:
        return Estimate(mean, math.nan, math.nan, n)
    weights = cosine_weights(values)
    error = math.sqrt(float(np.mean(weights**2)) / n)
    reach = student_t(len(weights)) * error
    return Estimate(mean, mean - reach, mean + reach, n)


def cycles_for(found: Estimate, reach: float) -> int:
    """About how many cycles an interval of ±`reach` takes if the variance stays as in `found`."""
    spread = (found.high - found.low) / 2 / student_t(_cosines(found.count)) * found.count**0.5
    count = float(found.count)
    while student_t(min(_cosines(count), 60)) * spread / math.sqrt(count) > reach:
        count *= 1.05
        if count > MAX_CYCLES:
            return MAX_CYCLES
    return math.ceil(count)


def share_interval(series: ArrayLike) -> Estimate:
    """`mean_interval` for numbers between 0 and 1, with its bounds clipped to that range."""
    return mean_interval(series).within(0.0, 1.0)


def share_difference(
    ours: ArrayLike, theirs: ArrayLike, interval: Callable[[ArrayLike], Estimate] = mean_interval
) -> Estimate:
    """The mean of ours - theirs, two series of numbers between 0 and 1, and its interval.

    Its bounds are clipped to what the intervals of the two series allow: if ours is always 1, the
    difference is not below 0. Without the limits 0 and 1 of the series this would clip nothing,
    because the spread of a difference is at most the sum of both spreads.
    """
    a, b = np.asarray(ours, float), np.asarray(theirs, float)
    both = np.isfinite(a) & np.isfinite(b)
    mine, other = (interval(one[both]).within(0.0, 1.0) for one in (a, b))
    return interval((a - b)[both]).within(mine.low - other.high, mine.high - other.low)


def rate_interval(hits: ArrayLike) -> Estimate:
    """The share of cycles in which something happened.

    If it never or always happened, the series does not show its variance; the bound is then that
    of a binomial share (0 of 60 cycles: up to 4.9%).
    """
    found = share_interval(np.asarray(hits, bool).astype(float))
    if not found.known or found.mean not in (0.0, 1.0):
        return found
    reach = 1.0 - (1.0 - CONFIDENCE) ** (1.0 / found.count)
    low, high = (0.0, reach) if found.mean == 0.0 else (1.0 - reach, 1.0)
    return Estimate(found.mean, low, high, found.count)


def interval_over_runs(values: ArrayLike) -> Estimate:
    """The mean over runs, and its Student interval."""
    given = np.asarray(values, float)
    known = given[np.isfinite(given)]
    n = len(known)
    mean = float(known.mean()) if n else math.nan
    if n < MIN_RUNS:
        return Estimate(mean, math.nan, math.nan, n)
    reach = student_t(n - 1) * float(known.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - reach, mean + reach, n)


def cosine_weights(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The series' weights on its B slowest cosines, each of variance n·Var(mean)."""
    n = len(values)
    slowest = np.arange(1, _cosines(n) + 1)
    times = (np.arange(n) + 0.5) / n
    waves = np.cos(np.pi * np.outer(slowest, times))
    weights: NDArray[np.float64] = math.sqrt(2.0 / n) * (waves @ (values - values.mean()))
    return weights


def _cosines(n: float) -> int:
    """B, the number of cosines for n cycles."""
    return round(0.6 * math.sqrt(n))


def student_t(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The t with P(|T| < t) = confidence, by bisection on the closed form for whole degrees."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if _central_probability(middle, freedom) < confidence else (low, middle)
        )
    return high


def _central_probability(t: float, freedom: int) -> float:
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
