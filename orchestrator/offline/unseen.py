"""How many of the values in scored files a model does not know."""

import numpy as np

from trainer.chunk import Chunk
from trainer.model import Model


class UnseenValues:
    """Counts the values of each feature, and those that the model has no vector for."""

    def __init__(self, model: Model) -> None:
        """Nothing is counted yet."""
        self._model = model
        self._names = [feature.name for feature in model.config.spec.features]
        self._values = np.zeros(len(self._names), np.int64)
        self._unseen = np.zeros_like(self._values)
        self._examples: dict[int, str] = {}

    def add(self, chunk: Chunk) -> None:
        """Count the values of these events; an example is the most frequent one of its chunk."""
        sides = (self._model.user, chunk.user_keys), (self._model.ad, chunk.ad_keys)
        for side, keys in sides:
            np.add.at(self._values, keys.feature, keys.count)
            new = np.flatnonzero(side.find(keys) < 0)
            np.add.at(self._unseen, keys.feature[new], keys.count[new])
            features, first = np.unique(keys.feature[new], return_index=True)
            for feature, at in zip(features.tolist(), new[first].tolist(), strict=True):
                self._examples.setdefault(feature, keys.values[at])

    def lines(self) -> list[str]:
        """A line for each feature with values that the model does not know."""
        found = []
        for number, example in sorted(self._examples.items()):
            values, unseen = int(self._values[number]), int(self._unseen[number])
            share = f"none of the {values:,} values is" if unseen == values else (
                f"{unseen:,} of {values:,} values are not"
            )  # fmt: skip
            such = repr(example[:40]) if example else "a missing one"
            found.append(f"{self._names[number]}: {share} known to the model (such as {such})")
        return found
