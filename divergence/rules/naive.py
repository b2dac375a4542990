"""`naive`: multiply or divide the multiplier by a constant (section V-A)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from divergence.lanemath import f32
from divergence.rules.hooks import Penalty
from divergence.simd import chosen_above, larger, smaller, splat


class Naive(NamedTuple):
    """mu <- mu * factor while msqr > rho, else mu / factor; held between floor and ceiling."""

    rho: Annotated[float, Gt(0)]
    factor: Annotated[float, Gt(1)] = 1.1
    mu0: Annotated[float, Gt(0)] = 1e-4
    mu_floor: Annotated[float, Ge(0)] = 1e-4
    mu_ceiling: Annotated[float, Gt(0)] = 1e6
    implicit: bool = True
    penalty_in_sum: bool = True

    penalty_coefficient = Penalty.penalty_coefficient
    summed_gradient = Penalty.summed_gradient
    move = Penalty.move

    def ascend(self, mu, msqr):
        """The size of the violation does not matter."""
        up, down = mu * splat(f32(self.factor)), mu / splat(f32(self.factor))
        moved = chosen_above(msqr, splat(f32(self.rho)), up, down)
        return smaller(larger(moved, splat(f32(self.mu_floor))), splat(f32(self.mu_ceiling)))

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        theta, sums = Penalty.plain_step(self, theta, g, sums, mu, step)
        moved = mu * self.factor if np.mean(theta**2) > self.rho else mu / self.factor
        return theta, sums, np.clip(moved, self.mu_floor, self.mu_ceiling)
