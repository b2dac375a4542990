import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orchestrator.report.interval import (
    MIN_CYCLES,
    Estimate,
    interval_over_runs,
    mean_interval,
    rate_interval,
    share_difference,
    share_interval,
    student_t,
)
from support.made_up_runs import autoregressive


@pytest.mark.parametrize(
    ("freedom", "table"),
    [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (10, 2.228), (31, 2.040)],
)
def test_student_t_is_that_of_the_tables(freedom: int, table: float) -> None:
    assert student_t(freedom) == pytest.approx(table, abs=6e-4)


@pytest.mark.parametrize(("phi", "length"), [(0.0, 40), (0.5, 96), (0.7, 200), (0.9, 672)])
def test_the_interval_covers_the_mean_of_correlated_series(phi: float, length: int) -> None:
    rng = np.random.default_rng(7)
    found = [mean_interval(3.0 + autoregressive(rng, length, phi)) for _ in range(600)]
    covered = np.mean([one.low <= 3.0 <= one.high for one in found])
    assert 0.90 <= covered <= 0.985


def test_a_naive_interval_would_not_cover() -> None:
    rng = np.random.default_rng(7)
    series = [autoregressive(rng, 200, 0.7) for _ in range(400)]
    naive = np.mean([abs(s.mean()) < 1.96 * s.std(ddof=1) / math.sqrt(len(s)) for s in series])
    assert naive < 0.75


def test_pairing_takes_out_what_both_arms_share() -> None:
    rng = np.random.default_rng(3)
    weather = 10 * autoregressive(rng, 300, 0.95)
    ours, theirs = weather + 0.5 + rng.normal(size=300), weather + rng.normal(size=300)
    apart, paired = mean_interval(ours), mean_interval(ours - theirs)
    assert paired.low < 0.5 < paired.high
    assert paired.low > 0
    assert paired.high - paired.low < (apart.high - apart.low) / 5


@given(arrays(float, st.integers(MIN_CYCLES, 60), elements=st.floats(-1e6, 1e6)))
def test_the_interval_is_around_the_mean_and_follows_shift_and_scale(values: np.ndarray) -> None:
    found, moved = mean_interval(values), mean_interval(2 * values + 1)
    assert found.low <= found.mean <= found.high
    assert moved.mean == pytest.approx(2 * found.mean + 1, rel=1e-6, abs=1e-3)
    assert moved.high - moved.low == pytest.approx(2 * (found.high - found.low), rel=1e-6, abs=1e-3)


def test_what_is_missing_does_not_count() -> None:
    values = np.array([1.0, np.nan, 2.0, np.inf] * 10)
    assert mean_interval(values) == mean_interval([1.0, 2.0] * 10)


def test_too_short_a_series_has_a_mean_but_no_bounds() -> None:
    found = mean_interval(range(MIN_CYCLES - 1))
    assert found.mean == 5.0
    assert not found.known
    assert math.isnan(mean_interval([]).mean)


def test_what_never_happened_may_still_happen() -> None:
    never, always = rate_interval([False] * 60), rate_interval([True] * 60)
    assert (never.mean, never.low) == (0.0, 0.0)
    assert never.high == pytest.approx(0.0487, abs=1e-4)
    assert always.low == pytest.approx(1 - never.high)
    some = [True, False, False] * 20
    assert rate_interval(some) == share_interval(np.array(some, float))
    assert not rate_interval([False] * 3).known


def test_a_share_stays_between_0_and_1() -> None:
    found = share_interval([0.0] * 30 + [1.0])
    assert found.low == 0.0
    assert share_interval([1.0] * 30) == Estimate(1.0, 1.0, 1.0, 30)


def test_a_difference_of_shares_is_one_that_the_shares_allow() -> None:
    theirs = [1.0] * 15 + [0.5]
    apart = mean_interval(1.0 - np.array(theirs))
    found = share_difference([1.0] * 16, theirs)
    assert apart.low < 0, "so it must be clipped"
    assert (found.mean, found.low, found.high) == (apart.mean, 0.0, apart.high)
    assert share_difference(theirs, [1.0] * 16) == found.scaled(-1.0)
    runs = share_difference([1.0, 1.0, 1.0], [0.999, 0.94, 0.7], interval_over_runs)
    assert 0.0 == runs.low < runs.mean < runs.high < 1.0


shares = arrays(float, 20, elements=st.floats(0, 1))


@given(shares, shares)
def test_nothing_but_the_limits_of_the_shares_clips(a: np.ndarray, b: np.ndarray) -> None:
    inner = share_difference(0.45 + 0.1 * a, 0.45 + 0.1 * b)
    plain = mean_interval(0.1 * (a - b))
    assert inner.low <= inner.mean <= inner.high
    reach = (share_interval(0.45 + 0.1 * x) for x in (a, b))
    if all(one.low > 0 and one.high < 1 for one in reach):
        assert inner.low == pytest.approx(plain.low, abs=1e-9)
        assert inner.high == pytest.approx(plain.high, abs=1e-9)
