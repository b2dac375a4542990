"""`none`: nothing limits the vectors."""

from typing import NamedTuple

import numpy as np


class NoRule(NamedTuple):
    """The loss alone."""

    def oracle(self, theta, g, sums, mu, step):
        """The step in plain numpy, for the contract."""
        sums = sums + np.abs(g)
        return theta - step(sums) * g, sums, mu
