"""`l2`: one global penalty, the production baseline of the paper (section III-B)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge

from divergence.lanemath import f32
from divergence.simd import fma, splat


class L2(NamedTuple):
    """The loss plus lam / 2 * |theta|**2."""

    lam: Annotated[float, Ge(0)]

    def penalty_coefficient(self, mu, inverse_length):
        """The same for every vector."""
        return splat(f32(self.lam))

    def summed_gradient(self, c, theta, g):
        """The penalty is part of the loss."""
        return fma(c, theta, g)

    def move(self, c, theta, g, eta0, denominator):
        """A plain gradient step on the sum."""
        return theta - (eta0 * fma(c, theta, g)) / denominator

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        g = g + self.lam * theta
        sums = sums + np.abs(g)
        return theta - step(sums) * g, sums, mu
