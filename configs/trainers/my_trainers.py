"""A trainer of one's own: logistic regression on hashed values, in numpy. See README.md."""

import zlib
from types import MappingProxyType

import numpy as np


class Logistic:
    """One weight for each hash of (feature, value). Searched: the step size and its decay."""

    parameters = MappingProxyType({"step": (0.003, 3.0), "decay": (1e-6, 1e-2)})  # low, high

    def __init__(self, spec, seed, rows=4096, block=32):
        """The arguments after `seed` are `trainer.options` of the config."""
        self.spec, self.rows, self.block = spec, rows, block

    def compile(self, events):
        """The row of each value, [events, features], and the clicks."""
        names = [feature.name for feature in self.spec.features]
        rows = [[self.row(name, v) for v in events[name].to_pylist()] for name in names]
        return np.array(rows).T, events[self.spec.label].to_numpy().astype(float)

    def row(self, name, value):
        """Python's own hash differs from process to process; this one does not."""
        return zlib.crc32(f"{name}={value}".encode()) % self.rows

    def start(self):
        """A model that has seen nothing."""
        return {"weights": np.zeros(self.rows), "bias": np.zeros(1)}

    def train(self, chunk, state, setting):
        """Block after block: first the logits, then a step on each event of the block."""
        rows, click = chunk
        for first in range(0, len(click), self.block):
            mine = rows[first : first + self.block]
            logits = self.logits((mine, None), state)
            error = 1 / (1 + np.exp(-logits)) - click[first : first + self.block]
            state["weights"] *= 1 - setting["decay"]
            np.subtract.at(state["weights"], mine, setting["step"] * error[:, None])
            state["bias"] -= setting["step"] * error.mean()
            yield logits

    def logits(self, chunk, state):
        """The logit of every event."""
        return state["weights"][chunk[0]].sum(axis=1) + state["bias"]
