"""`gradient_clip`: a largest norm for the gradient of each vector, before AdaGrad sees it."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Gt

from divergence.lanemath import f32


class GradientClip(NamedTuple):
    """Scale a vector's gradient back where its norm exceeds the limit."""

    limit: Annotated[float, Gt(0)] = 1.0

    def gradient_limit(self):
        """|g| <= limit."""
        return f32(self.limit)

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        g = g * min(1.0, self.limit / max(np.linalg.norm(g), 1e-300))
        sums = sums + np.abs(g)
        return theta - step(sums) * g, sums, mu
