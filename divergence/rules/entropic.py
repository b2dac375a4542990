"""`entropic`: dual ascent with the entropic step, the paper's rule (section V-C)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from divergence.lanemath import exp_lanes, f32
from divergence.rules.hooks import Penalty
from divergence.simd import larger, smaller, splat

MAX_EXPONENT = f32(50.0)  # e**50 is far beyond any ceiling, and far from overflow


class Entropic(NamedTuple):
    """mu <- mu * exp(dual_step * (msqr - rho)), held between a floor and a ceiling.

    The update is multiplicative: without a floor a mu that sank to zero would never rise again.
    """

    rho: Annotated[float, Gt(0)]
    dual_step: Annotated[float, Gt(0)]
    mu0: Annotated[float, Gt(0)] = 1e-4
    mu_floor: Annotated[float, Ge(0)] = 1e-4
    mu_ceiling: Annotated[float, Gt(0)] = 1e6
    implicit: bool = True
    penalty_in_sum: bool = True

    penalty_coefficient = Penalty.penalty_coefficient
    summed_gradient = Penalty.summed_gradient
    move = Penalty.move

    def ascend(self, mu, msqr):
        """Rise with the violation, fall with the slack."""
        exponent = splat(f32(self.dual_step)) * (msqr - splat(f32(self.rho)))
        exponent = smaller(larger(exponent, splat(-MAX_EXPONENT)), splat(MAX_EXPONENT))
        risen = mu * exp_lanes(exponent)
        return smaller(larger(risen, splat(f32(self.mu_floor))), splat(f32(self.mu_ceiling)))

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        theta, sums = Penalty.plain_step(self, theta, g, sums, mu, step)
        moved = mu * np.exp(min(self.dual_step * (np.mean(theta**2) - self.rho), 50))
        return theta, sums, np.clip(moved, self.mu_floor, self.mu_ceiling)
