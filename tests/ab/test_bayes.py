"""The Bayesian analysis against closed forms, and by simulation."""

import math

import numpy as np
import pytest

from divergence.errors import InputError
from orchestrator.ab.bayes import credible, generator, lifts, observed, posterior
from orchestrator.ab.counts import Counts

CONTROL, TREATMENT = Counts(40_000, 800, 500.0), Counts(41_000, 900, 540.0)


def test_posteriors_have_the_moments_of_beta_and_gamma() -> None:
    p, rate = posterior(CONTROL, generator(), 400_000)
    a, b = 800.5, 39_200.5
    assert p.mean() == pytest.approx(a / (a + b), rel=5e-4)
    assert p.var() == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=0.02)
    assert rate.mean() == pytest.approx(800 / 500, rel=5e-4)
    assert rate.var() == pytest.approx(800 / 500**2, rel=0.02)


def test_mean_lifts_are_those_of_the_closed_forms() -> None:
    """E[p'/p] = E[p'] E[1/p], and E[rate/rate'] = E[rate] E[1/rate'], by independence."""
    found = lifts(CONTROL, TREATMENT, generator(), 400_000)
    inverse_p = (40_000 + 1 - 1) / (800.5 - 1)
    ctr = 900.5 / 41_001 * inverse_p
    cpm = ctr * (800 / 500) * (540 / (900 - 1))
    assert found.ctr.mean() == pytest.approx(100 * (ctr - 1), abs=0.03)
    assert found.cpm.mean() == pytest.approx(100 * (cpm - 1), abs=0.05)


def test_the_chance_to_be_better_is_the_exact_one() -> None:
    """P(p' > p) of two Betas with a whole number of clicks, integrated on a grid."""
    few, more = Counts(100, 10, 5.0), Counts(110, 16, 9.0)
    won = float(np.mean(lifts(few, more, generator(), 400_000).ctr > 0))
    a, b, c, d = 10.5, 90.5, 16.5, 94.5
    x = np.linspace(0, 1, 200_001)[1:-1]
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    density = np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - log_beta)
    log_beta = math.lgamma(c) + math.lgamma(d) - math.lgamma(c + d)
    other = np.exp((c - 1) * np.log(x) + (d - 1) * np.log1p(-x) - log_beta)
    exact = float(np.sum(other * np.cumsum(density)) * (x[1] - x[0]) ** 2)
    assert won == pytest.approx(exact, abs=0.003)


def test_what_is_observed_is_the_papers_lift() -> None:
    ctr, cpm = observed(CONTROL, TREATMENT)
    assert ctr == pytest.approx(100 * ((900 / 41_000) / (800 / 40_000) - 1))
    assert cpm == pytest.approx(100 * ((540 / 41_000) / (500 / 40_000) - 1))
    assert math.isnan(observed(Counts(10, 0, 0.0), TREATMENT)[0])


def test_the_same_counts_give_the_same_interval_in_any_currency() -> None:
    cents = [Counts(c.views, c.clicks, 100 * c.cost) for c in (CONTROL, TREATMENT)]
    here = credible(lifts(CONTROL, TREATMENT, generator()).cpm)
    there = credible(lifts(*cents, generator()).cpm)
    assert here.low == pytest.approx(there.low)
    assert here.high == pytest.approx(there.high)


def test_an_arm_without_clicks_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"at least one click .* has 0 clicks with a total cost of 0"
    ):
        posterior(Counts(100, 0, 0.0), generator())


def test_an_aa_test_covers_zero_at_the_nominal_rate() -> None:
    """1,500 tests in which nothing differs: 95% of the intervals hold zero, give or take 2%."""
    tests, rng = 1500, np.random.default_rng(7)
    clicks = rng.binomial(60_000, 0.03, (tests, 2))
    cost = rng.gamma(clicks, 0.7)  # a sum of so many exponential costs
    covered = np.zeros(2)
    for number in range(tests):
        pair = clicks[number], cost[number]
        arms = [Counts(60_000, int(c), float(x)) for c, x in zip(*pair, strict=True)]
        found = lifts(arms[0], arms[1], np.random.default_rng(number), 2000)
        covered += [low <= 0 <= high for low, high in map(_bounds, (found.ctr, found.cpm))]
    # 1,500 draws of a share of 0.95 have a standard deviation of 0.56%.
    assert np.all(np.abs(covered / tests - 0.95) < 0.02), covered / tests


def test_a_real_lift_is_found_and_not_overstated() -> None:
    """300 tests with a lift of 4%: the intervals hold 4% at the nominal rate, most exclude 0."""
    tests, rng = 300, np.random.default_rng(8)
    held = found_one = 0
    for number in range(tests):
        clicks = rng.binomial(200_000, [0.03, 0.03 * 1.04])
        arms = [Counts(200_000, int(c), float(c)) for c in clicks]
        low, high = _bounds(lifts(*arms, np.random.default_rng(number), 2000).ctr)
        held += low <= 4.0 <= high
        found_one += low > 0
    assert abs(held / tests - 0.95) < 0.045
    assert found_one / tests > 0.6


def _bounds(draws: np.ndarray) -> tuple[float, float]:
    found = credible(draws)
    return found.low, found.high
