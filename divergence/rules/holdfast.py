"""`holdfast`: dual ascent with bounded updates, the rule of a config that names none.

Three parts, from the inside out:

- **dual ascent**, as in `entropic`: each vector has a multiplier that grows while its mean square
  is above rho. It shapes the model over many updates, but cannot catch a single giant step. Unlike
  there, the penalty does not enter AdaGrad's sums, which saves time.
- **damping** bounds the step of an event: all its steps are divided by
  sqrt(1 + (damping * reach)**2), where reach is how far they would move the event's own logit. New
  vectors, whose steps are the largest, are held back most, mature ones not at all. An instance with
  absurd step sizes stays useful. (Kin to importance-aware updates: Karampatziakis and Langford,
  UAI 2011.)
- **the wall**: a vector whose mean square exceeds wall * rho is scaled back to it. With the default
  rho (a tenth of rho0) the wall is at rho0 itself, whose vectors are shorter than 12 for every
  geometry, below a tau of 15: no instance can diverge.
"""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from divergence.lanemath import exp_lanes, f32
from divergence.rules.hooks import Penalty
from divergence.simd import fma, larger, smaller, splat

MAX_EXPONENT = f32(50.0)  # e**50 is far beyond any ceiling, and far from overflow


class Holdfast(NamedTuple):
    """mu <- mu * exp(dual_step * (msqr - rho)), with damped steps and a wall at wall * rho."""

    rho: Annotated[float, Gt(0)]
    dual_step: Annotated[float, Gt(0)]
    damping: Annotated[float, Ge(0)] = 0.3
    wall: Annotated[float, Ge(1)] = 10.0
    mu0: Annotated[float, Gt(0)] = 1e-4
    mu_floor: Annotated[float, Ge(0)] = 1e-4
    mu_ceiling: Annotated[float, Gt(0)] = 1e6

    penalty_coefficient = Penalty.penalty_coefficient

    def move(self, c, theta, g, eta0, denominator):
        """Implicit in the penalty, which therefore cannot overshoot."""
        back = splat(f32(0.0)) - eta0
        return fma(back, g, theta * denominator) / fma(eta0, c, denominator)

    def logit_damping(self):
        """Bounds the step of each event."""
        return f32(self.damping)

    def norm_limit(self, length):
        """The wall: |theta|**2 <= wall * rho * d."""
        return f32(self.wall) * f32(self.rho) * length

    def ascend(self, mu, msqr):
        """Rise with the violation, fall with the slack."""
        exponent = splat(f32(self.dual_step)) * (msqr - splat(f32(self.rho)))
        exponent = smaller(larger(exponent, splat(-MAX_EXPONENT)), splat(MAX_EXPONENT))
        risen = mu * exp_lanes(exponent)
        return smaller(larger(risen, splat(f32(self.mu_floor))), splat(f32(self.mu_ceiling)))

    def oracle(self, theta, g, sums, mu, step):
        """The step of one vector in plain numpy, for the contract; `step` is damped already."""
        c = 2 * mu / len(theta)
        sums = sums + np.abs(g)
        new = (theta - step(sums) * g) / (1 + step(sums) * c)
        most = self.wall * self.rho
        new = new * np.sqrt(min(1.0, most / max(np.mean(new**2), 1e-300)))
        moved = mu * np.exp(min(self.dual_step * (np.mean(new**2) - self.rho), 50))
        return new, sums, np.clip(moved, self.mu_floor, self.mu_ceiling)
