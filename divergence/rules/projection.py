"""`projection`: after each step, back to the ball msqr <= rho (section V dismisses it)."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Gt

from divergence.lanemath import f32


class Projection(NamedTuple):
    """Divide a vector by a constant where its mean square exceeds rho."""

    rho: Annotated[float, Gt(0)]

    def norm_limit(self, length):
        """|theta|**2 <= rho * d."""
        return f32(self.rho) * length

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        sums = sums + np.abs(g)
        new = theta - step(sums) * g
        return new * np.sqrt(min(1.0, self.rho / max(np.mean(new**2), 1e-300))), sums, mu
