"""River's factorization machine, event by event: `predict_proba_one`, then `learn_one`.

As its page on `facto.FMClassifier` shows it: 10 factors, weights from 0, factors from N(0, 0.1).
One of the optimizers of its page on optimizers for weights and factors alike.
"""

import numpy as np
from river import facto, optim

from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening

FACTORS = 10
Encoded = tuple[list[dict[int, float]], list[bool]]


def river_fm(opening: Opening) -> Learner:
    """A learner that has seen nothing."""
    return RiverLearner(opening)


class RiverLearner(Learner):
    """Works on one event at a time, in Python."""

    def __init__(self, opening: Opening) -> None:
        optimizer, rate = getattr(optim, str(opening.setting["optimizer"])), opening.number("lr")
        self._model = facto.FMClassifier(
            n_factors=FACTORS,
            weight_optimizer=optimizer(rate),
            latent_optimizer=optimizer(rate),
            seed=opening.seed,
        )
        self._trained = False

    def encode(self, chunk: FieldChunk) -> Encoded:
        """A dictionary for each event, as one-hot encoding makes it."""
        slots = [{value: weight for _, value, weight in own} for _, own in chunk.events.slots()]
        return slots, chunk.events.click.astype(bool).tolist()

    def predict(self, encoded: Encoded) -> Chances | None:
        """The chance of a click of each event."""
        if not self._trained:
            return None
        return np.array([self._model.predict_proba_one(event)[True] for event in encoded[0]])

    def train(self, encoded: Encoded) -> int:
        """One event after the other."""
        for event, clicked in zip(*encoded, strict=True):
            self._model.learn_one(event, clicked)
        self._trained = True
        return len(encoded[0])
