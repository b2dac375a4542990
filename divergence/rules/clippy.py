"""`clippy`: clip the update, not the gradient (Tang et al., KDD 2023), vector by vector.

No entry of a vector may move by more than relative * |entry| + absolute; the whole update is
scaled down until that is so, and keeps its direction.
"""

from typing import Annotated, NamedTuple

import numpy as np
from annotated_types import Ge, Gt

from divergence.lanemath import f32


class Clippy(NamedTuple):
    """Adaptive update clipping."""

    relative: Annotated[float, Ge(0)] = 1.0
    absolute: Annotated[float, Gt(0)] = 0.3

    def update_limit(self):
        """The two terms of the largest move."""
        return f32(self.relative), f32(self.absolute)

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        sums = sums + np.abs(g)
        update = -step(sums) * g
        excess = np.max(np.abs(update) / (self.relative * np.abs(theta) + self.absolute))
        return theta + update / max(1.0, excess), sums, mu
