"""LightFM with its logistic loss: `fit_partial` resumes training, one epoch for each chunk.

As its pages show it: clicks are +1 and the rest -1, Adagrad, user and item features as sparse
matrices. Each event is a user and an item of its own with the values of its fields, since the
events name no users. LightFM shuffles the events of each call, and knows no other way. Its tables
have a fixed size, so that it is told the number of values of the whole stream.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from lightfm import LightFM

from scripts.bench.fields.events import FieldEvents
from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening, sigmoid


class LightChunk(NamedTuple):
    """A chunk as three sparse matrices."""

    clicks: sp.coo_matrix
    users: sp.csr_matrix
    items: sp.csr_matrix


def light_fm(opening: Opening) -> Learner:
    """A learner that has seen nothing."""
    return LightLearner(opening)


class LightLearner(Learner):
    """A model of LightFM, on one thread."""

    def __init__(self, opening: Opening) -> None:
        self._fields = opening.fields
        self._model = LightFM(
            no_components=int(opening.number("components")),
            loss="logistic",
            learning_schedule="adagrad",
            learning_rate=opening.number("learning_rate"),
            random_state=opening.seed,
        )
        self._trained = False

    def encode(self, chunk: FieldChunk) -> LightChunk:
        """Event i is user i and item i."""
        n, each = len(chunk.events), np.arange(len(chunk.events))
        sign = np.where(chunk.events.click != 0, 1.0, -1.0).astype(np.float32)
        clicks = sp.coo_matrix((sign, (each, each)), shape=(n, n))
        is_user = chunk.events.field < self._fields.users
        return LightChunk(
            clicks, self._matrix(chunk.events, is_user), self._matrix(chunk.events, ~is_user)
        )

    def _matrix(self, events: FieldEvents, own: np.ndarray) -> sp.csr_matrix:
        places = (events.event[own], events.value[own])
        shape = (len(events), self._fields.values)
        return sp.csr_matrix((events.weight[own], places), shape=shape, dtype=np.float32)

    def predict(self, encoded: LightChunk) -> Chances | None:
        """The sigmoid of its score, which is what its loss is defined by."""
        if not self._trained:
            return None
        each = np.arange(encoded.users.shape[0], dtype=np.int32)
        score = self._model.predict(
            each, each, item_features=encoded.items, user_features=encoded.users, num_threads=1
        )
        return sigmoid(score)

    def train(self, encoded: LightChunk) -> int:
        """One epoch."""
        self._model.fit_partial(
            encoded.clicks,
            user_features=encoded.users,
            item_features=encoded.items,
            epochs=1,
            num_threads=1,
        )
        self._trained = True
        return int(encoded.users.shape[0])
