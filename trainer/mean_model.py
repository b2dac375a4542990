"""The mean of several models' logits as one model, which is as many times as wide.

A logit is linear in the ad's vector. So the mean of k models with overlap o and alone s is a model
with overlap k·o and alone k·s: each block of entries has those of the k models side by side, and
ad vectors are divided by k. Whatever serves a model can serve this one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from trainer.model import Model, Side

NOTHING = 1e-30
"""The size of new vectors: a value that no model has seen adds nothing to the logit."""


def mean_model(models: Sequence[Model]) -> Model:
    """A model whose logits are the mean of those of `models`, to be served, not to be trained.

    They must be lines of one arm: of one config, with vectors of the same values in the same rows.
    """
    first, k = models[0], len(models)
    if any(
        (model.config, model.cycle, model.user.keys, model.ad.keys)
        != (first.config, first.cycle, first.user.keys, first.ad.keys)
        for model in models
    ):
        raise ValueError("models must be lines of one arm after the same cycle")
    config, shape = first.config, first.shape
    wide = Model(
        replace(config, overlap=k * config.overlap, alone=k * config.alone, init_std=NOTHING)
    )
    wide.cycle = first.cycle
    wide.bias[0] = np.mean([model.bias[0] for model in models])
    pairs = shape.features * (shape.features - 1) // 2
    for side, each, blocks, length, share in (
        (wide.user, [m.user for m in models], (shape.features - 1, 1), shape.user, 1.0),
        (wide.ad, [m.ad for m in models], (pairs, shape.features), shape.ad, 1.0 / k),
    ):
        vectors = np.stack([one.rows[:, 0, :length] for one in each], axis=1) * np.float32(share)
        _fill(side, each[0], _side_by_side(vectors, blocks, config.overlap))
    return wide


def _side_by_side(
    vectors: NDArray[np.float32], blocks: tuple[int, int], overlap: int
) -> NDArray[np.float32]:
    """[rows, k, length] -> [rows, k·length]: `blocks` of shared entries, then of lone ones."""
    rows, k, _ = vectors.shape
    shared, lone = np.split(vectors, [blocks[0] * overlap], axis=2)
    parts = (
        part.reshape(rows, k, count, -1).swapaxes(1, 2).reshape(rows, -1)
        for part, count in ((shared, blocks[0]), (lone, blocks[1]))
        if part.shape[2]
    )
    return np.concatenate(list(parts), axis=1)


def _fill(side: Side, like: Side, vectors: NDArray[np.float32]) -> None:
    """The keys and rows of another side, with these vectors."""
    alive = like.alive()
    at = side.insert(like.index)
    rows = np.zeros((len(at), *side.rows.shape[1:]), np.float32)
    rows[:, 0, : vectors.shape[1]] = vectors[alive]
    side.write(at, rows, like.mu[alive], vectors.shape[1])
    side.updates[at] = like.updates[alive]
    side.touch_each(at, like.seen[alive])
