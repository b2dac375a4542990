"""River's factorization machine, event by event: `river.facto.FMClassifier` with plain SGD.

Its weights and latent vectors are in arrays of a fixed number of rows; a value's row is its hash.
River keeps them in dictionaries, so those of the values of a chunk are put there and taken back.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainer.features import FeatureSpec
from trainer.states.hashing import HashedEvents, hashed_events
from trainer.states.own import State

BLOCK = 256
"""Events between two looks at the weights."""
CERTAIN = 1e-15
"""A probability this close to 0 or 1 counts as that far from it: its logit must be finite."""


class RiverFM:
    """A factorization machine over all features of an event, with `factors` latent factors."""

    parameters: ClassVar[dict[str, Any]] = {"step": (0.003, 0.3), "l2": (1e-8, 1e-3)}

    def __init__(
        self,
        spec: FeatureSpec,
        seed: int,
        factors: int = 4,
        rows: int = 1 << 14,
        init_std: float = 0.1,
    ) -> None:
        import river.facto  # noqa: F401  # an optional extra: its absence shows at the start

        self.spec, self.seed = spec, seed
        self.factors, self.rows, self.init_std = factors, rows, init_std

    def compile(self, events: pa.Table) -> HashedEvents:
        """Each value as the row of its hash."""
        return hashed_events(events, self.spec, self.rows)

    def start(self) -> State:
        """Normal entries in the latent vectors, and zeros elsewhere."""
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self.seed,))))
        latents = rng.standard_normal((self.rows, self.factors)) * self.init_std
        return {"weights": np.zeros((self.rows, 1)), "latents": latents, "intercept": np.zeros(1)}

    def train(
        self, chunk: HashedEvents, state: State, setting: Mapping[str, float]
    ) -> Iterator[NDArray[Any]]:
        """One event after the other."""
        used, model = _used(chunk), self._model(chunk, state, setting)
        events = zip(chunk.click, _features(chunk), strict=True)
        block: list[float] = []
        for number, (click, features) in enumerate(events, 1):
            block.append(_logit(model, features))
            if np.isfinite(block[-1]):
                model.learn_one(features, bool(click))
            if len(block) == BLOCK or number == len(chunk.click):
                state["weights"][used, 0] = [model.weights[row] for row in used]
                state["intercept"][0] = model.intercept
                yield np.array(block)
                block = []

    def logits(self, chunk: HashedEvents, state: State) -> NDArray[Any]:
        """The logit of every event."""
        model = self._model(chunk, state, {"step": 0.0, "l2": 0.0})
        return np.array([_logit(model, features) for features in _features(chunk)])

    def _model(self, chunk: HashedEvents, state: State, setting: Mapping[str, float]) -> Any:
        """River's model with the state of the chunk's values. It changes the latents in place."""
        from river import facto, optim

        model = facto.FMClassifier(
            self.factors,
            weight_optimizer=optim.SGD(setting["step"]),
            latent_optimizer=optim.SGD(setting["step"]),
            l2_weight=setting["l2"],
            l2_latent=setting["l2"],
            intercept=float(state["intercept"][0]),
            intercept_lr=setting["step"],
        )
        for row in _used(chunk):
            model.weights[row] = float(state["weights"][row, 0])
            model.latents[row] = state["latents"][row]
        return model


def _used(chunk: HashedEvents) -> list[int]:
    """The rows of all values in a chunk."""
    rows: list[int] = np.unique(np.concatenate([chunk.users.row, chunk.ads.row])).tolist()
    return rows


def _features(chunk: HashedEvents) -> Iterator[dict[int, float]]:
    """The weight of each row, event by event; values that share a row add up."""
    sides = [[part.tolist() for part in side] for side in (chunk.users, chunk.ads)]
    for event in range(len(chunk.click)):
        found: dict[int, float] = {}
        for start, rows, weights in sides:
            for at in range(start[event], start[event + 1]):
                found[rows[at]] = found.get(rows[at], 0.0) + weights[at]
        yield found


def _logit(model: Any, features: dict[int, float]) -> float:
    """NaN where River's own arithmetic overflows."""
    try:
        chance = model.predict_proba_one(features)[True]
    except OverflowError:
        return float("nan")
    chance = min(max(chance, CERTAIN), 1.0 - CERTAIN) if chance == chance else chance
    return float(np.log(chance) - np.log1p(-chance))
