"""`decay`: weight decay that is decoupled from the gradient (Loshchilov and Hutter, 2019)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Lt

from divergence.lanemath import f32
from divergence.simd import splat


class Decay(NamedTuple):
    """theta <- (1 - rate) * theta - step * g: neither eta0 nor AdaGrad scales the decay."""

    rate: Annotated[float, Ge(0), Lt(1)] = 0.01

    def move(self, c, theta, g, eta0, denominator):
        """Shrink first, then step."""
        return theta * splat(f32(1.0) - f32(self.rate)) - (eta0 * g) / denominator

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        sums = sums + np.abs(g)
        return (1 - self.rate) * theta - step(sums) * g, sums, mu
