"""`max_norm`: a largest Euclidean norm for every vector, whatever its length."""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Gt

from divergence.lanemath import f32


class MaxNorm(NamedTuple):
    """Scale a vector back where its norm exceeds the limit, as embedding layers do."""

    limit: Annotated[float, Gt(0)] = 2.0

    def norm_limit(self, length):
        """|theta| <= limit."""
        return f32(self.limit) * f32(self.limit)

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        sums = sums + np.abs(g)
        new = theta - step(sums) * g
        return new * min(1.0, self.limit / max(np.linalg.norm(new), 1e-300)), sums, mu
