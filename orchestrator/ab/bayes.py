"""The paper's Bayesian A/B analysis (section "online", after Stucchio 2015).

A view is clicked with probability p (Bernoulli; its posterior is a Beta), and a click costs an
exponential amount with rate lambda (its posterior is a Gamma), so that CPM = 1000 p / lambda. Lifts
of CTR and CPM come from Monte Carlo draws of both arms' posteriors. The paper names no priors. Ours
are Jeffreys' Beta(1/2, 1/2) and the scale-free Gamma(0, 0), which does not depend on the currency.

The model assumes that views are independent. If the same people come back, or two worlds differ,
the true intervals are wider: repeat the test (several trials) and look at the spread between them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.ab.counts import Counts
from orchestrator.report.interval import Estimate

DRAWS = 100_000
PRIOR_CLICKS = 0.5
"""Both parameters of the Beta: Jeffreys' prior."""
MASS = (2.5, 97.5)
"""Percentiles of a credible interval, as in the paper."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lifts:
    """Draws of the lifts of CTR and CPM, in percent of the control's."""

    ctr: Floats
    cpm: Floats


def posterior(
    counts: Counts, rng: np.random.Generator, draws: int = DRAWS
) -> tuple[Floats, Floats]:
    """Draws of p and of lambda."""
    if counts.clicks < 1 or counts.cost <= 0:
        raise InputError(
            f"an arm needs at least one click with a cost above 0, but has {counts.clicks} "
            f"clicks with a total cost of {counts.cost:g}"
        )
    missed = counts.views - counts.clicks
    p = rng.beta(counts.clicks + PRIOR_CLICKS, missed + PRIOR_CLICKS, draws)
    return p, rng.gamma(counts.clicks, 1.0 / counts.cost, draws)


def lifts(
    control: Counts, treatment: Counts, rng: np.random.Generator, draws: int = DRAWS
) -> Lifts:
    """Draws of both lifts from the posteriors of the two arms."""
    p, rate = posterior(control, rng, draws)
    new_p, new_rate = posterior(treatment, rng, draws)
    ctr = new_p / p
    return Lifts(100.0 * (ctr - 1.0), 100.0 * (ctr * rate / new_rate - 1.0))


def credible(draws: Floats) -> Estimate:
    """The posterior mean and the central 95%."""
    low, high = np.percentile(draws, MASS)
    return Estimate(float(draws.mean()), float(low), float(high), len(draws))


def observed(control: Counts, treatment: Counts) -> tuple[float, float]:
    """The observed lifts of CTR and CPM in percent, as the paper's table shows them by day."""
    return (
        100.0 * (treatment.ctr / control.ctr - 1.0) if control.clicks else np.nan,
        100.0 * (treatment.cpm / control.cpm - 1.0) if control.cost else np.nan,
    )


def generator(seed: int = 0) -> np.random.Generator:
    """The random generator of an analysis, seeded so that equal counts give equal intervals."""
    return np.random.default_rng(seed)
