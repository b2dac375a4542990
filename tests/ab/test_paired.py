"""The intervals of twins: exact where nothing differs, and honest where something does."""

import numpy as np
import pytest

from orchestrator.ab.bayes import credible, generator, lifts
from orchestrator.ab.counts import Both, Counts, total
from orchestrator.ab.paired import paired_lifts


def twins(rng: np.random.Generator, cycles: int, lift: float, wander_sd: float = 2) -> list[Both]:
    """Clicks of which nine in ten are common to both arms, and the lift wanders for hours."""
    views = 500
    common, own = rng.poisson(90, cycles), rng.poisson(10, (2, cycles))
    wander = np.zeros(cycles)
    for i in range(1, cycles):
        wander[i] = 0.8 * wander[i - 1] + rng.normal(0, wander_sd)
    extra = rng.poisson(np.maximum(100 * lift + 10 + wander, 0))
    pairs = zip(common + own[0] + 10, common + own[1] + extra, strict=True)
    return [(Counts(views, int(a), 2.0 * a), Counts(views, int(b), 2.0 * b)) for a, b in pairs]


def test_the_lift_is_that_of_the_sums_and_its_interval_covers_the_truth() -> None:
    """400 tests with a true lift of 2%: 95% of the intervals hold it, give or take 3%."""
    tests, held, rng = 400, 0, np.random.default_rng(11)
    for _ in range(tests):
        pairs = twins(rng, 288, lift=0.022)  # of 110 clicks a cycle: 2%
        ctr, cpm = paired_lifts(pairs)
        held += ctr.low <= 2.0 <= ctr.high
    assert abs(held / tests - 0.95) < 0.03
    control, treatment = (total(arm) for arm in zip(*pairs, strict=True))
    assert ctr.mean == pytest.approx(100 * (treatment.ctr / control.ctr - 1))
    assert cpm.mean == pytest.approx(ctr.mean)  # clicks have a constant price


def test_pairs_are_worth_more_than_independent_buckets() -> None:
    pairs = twins(np.random.default_rng(12), 864, lift=0.01, wander_sd=0)
    ctr, _ = paired_lifts(pairs)
    buckets = credible(lifts(*(total(arm) for arm in zip(*pairs, strict=True)), generator()).ctr)
    assert ctr.high - ctr.low < 0.7 * (buckets.high - buckets.low)


def test_few_cycles_and_arms_without_clicks_have_no_interval() -> None:
    one = (Counts(10, 1, 1.0), Counts(10, 2, 3.0))
    ctr, cpm = paired_lifts([one] * 11)
    assert (ctr.mean, cpm.mean) == pytest.approx((100.0, 200.0))
    assert not ctr.known
    nothing = Counts(10, 0, 0.0)
    assert np.isnan(paired_lifts([(nothing, nothing)] * 20)[0].mean)
