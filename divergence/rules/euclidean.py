"""`euclidean`: dual ascent with the projected gradient step (section V-C, equation 8)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from divergence.lanemath import f32
from divergence.rules.hooks import Penalty
from divergence.simd import fma, larger, smaller, splat


class Euclidean(NamedTuple):
    """mu <- max(floor, mu + dual_step * (msqr - rho)), at most the ceiling.

    The paper's floor is zero, and an additive step can leave it again.
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
        """A step along the constraint's violation, projected back."""
        moved = fma(splat(f32(self.dual_step)), msqr - splat(f32(self.rho)), mu)
        return smaller(larger(moved, splat(f32(self.mu_floor))), splat(f32(self.mu_ceiling)))

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        theta, sums = Penalty.plain_step(self, theta, g, sums, mu, step)
        moved = mu + self.dual_step * (np.mean(theta**2) - self.rho)
        return theta, sums, np.clip(moved, self.mu_floor, self.mu_ceiling)
