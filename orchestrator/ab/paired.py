"""Intervals for twins, from the differences between the two arms cycle by cycle.

Twins meet the same requests, so their counts rise and fall together. The posteriors of independent
buckets (`bayes`) would add up two variances that cancel, and their intervals would be far too wide.
A lift is the ratio of two sums over cycles; to first order, its error is the mean of the residuals

    (treatment_i - ratio * control_i) / mean(control)

Neighbouring cycles are correlated, since champions persist. `mean_interval` allows for that.
The interval is about the worlds of these trials. It does not say how much other worlds would
differ; Student's interval over trials does, and decides where there are three trials or more.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from orchestrator.ab.counts import Both
from orchestrator.report.interval import Estimate, mean_interval


def paired_lifts(cycles: Sequence[Both]) -> tuple[Estimate, Estimate]:
    """The lifts of CTR and CPM in percent, from cycles in time order; both arms have equal views.

    Without bounds if there are too few cycles.
    """
    clicks = [[counts.clicks for counts in pair] for pair in cycles]
    cost = [[counts.cost for counts in pair] for pair in cycles]
    return _lift(clicks), _lift(cost)


def _lift(pairs: ArrayLike) -> Estimate:
    control, treatment = np.asarray(pairs, float).reshape(-1, 2).T
    if not control.sum():
        return Estimate(math.nan, math.nan, math.nan, len(control))
    ratio = math.fsum(treatment) / math.fsum(control)
    error = mean_interval(100.0 * (treatment - ratio * control) / control.mean())
    lift = 100.0 * (ratio - 1.0)
    return Estimate(lift, lift + error.low, lift + error.high, len(control))
