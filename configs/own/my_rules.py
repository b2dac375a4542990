"""A rule of your own: no entry of a vector may exceed c."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Gt

from divergence.lanemath import f32
from divergence.simd import at_least, at_most, splat


class EntryClip(NamedTuple):
    """After each step, entries above c become c, and entries below -c become -c."""

    c: Annotated[float, Gt(0)] = 3.0

    def move(self, c, theta, g, eta0, denominator):
        """The usual step, then the limits. A NaN stays a NaN."""
        new = theta - (eta0 * g) / denominator
        return at_most(at_least(new, splat(-f32(self.c))), splat(f32(self.c)))

    def oracle(self, theta, g, sums, mu, step):
        """The same in numpy."""
        sums = sums + np.abs(g)
        return np.clip(theta - step(sums) * g, -self.c, self.c), sums, mu
