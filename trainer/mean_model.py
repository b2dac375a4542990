"""The mean of several models' logits as one model, which is as many times as wide.

A logit is linear in the ad's vector. So the mean of k models with overlap o and alone s is a model
with overlap k·o and alone k·s: each block of entries has those of the k models side by side, and
ad vectors are divided by k. Whatever serves a model can serve this one.

It also has the AdaGrad sums of its members, so that one of them can be taken out again and trained
on. It has neither their multipliers nor their biases, only the mean of those.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.chunk import Chunk
from trainer.geometry import PARTS, Shape
from trainer.kernel import Tables
from trainer.model import Model, ModelConfig, Side, WorkingSet, new_vectors
from trainer.rows import put_columns

NOTHING = 1e-30
"""The size of new vectors: a value that no model has seen adds nothing to the logit."""
BLOCK = 1 << 16
"""So many rows are copied at a time."""


def mean_config(config: ModelConfig, count: int) -> ModelConfig:
    """The config of a mean of so many models."""
    return replace(
        config, overlap=count * config.overlap, alone=count * config.alone, init_std=NOTHING
    )


def mean_model(models: Sequence[Model]) -> Model:
    """A model whose logits are the mean of those of `models`, to be served, not to be trained.

    They must be lines of one arm: of one config, with vectors of the same values.
    """
    wide = mean_like(models[0], len(models))
    for seat, model in enumerate(models):
        put_member(wide, seat, model)
    wide.bias[:] = mean_bias(np.array([model.bias for model in models]))
    return wide


def mean_like(model: Model, count: int) -> Model:
    """A mean of so many models with vectors for the same values as this one, all of them 0."""
    wide = Model(mean_config(model.config, count))
    _copy_keys(model, wide)
    return wide


def mean_bias(biases: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of biases [k, 2] and of their sums: exactly theirs if all are the same."""
    mean: NDArray[np.float64] = biases[0] + (biases - biases[0]).mean(axis=0)
    return mean


def put_member(wide: Model, seat: int, model: Model) -> None:
    """Let this be one of the models of a mean; the bias stays as it is."""
    same = [mine.index.keys() == its.index.keys() for mine, its in _sides(wide, model)]
    if not all(same) or wide.cycle != model.cycle:
        raise ValueError("models must be lines of one arm after the same cycle")
    places = _places(model.shape, wide.shape, seat)
    for (mine, its), columns, length, share in zip(
        _sides(wide, model), places, (wide.shape.user, wide.shape.ad), _shares(model, wide),
        strict=True,
    ):  # fmt: skip
        at = mine.alive()
        given = np.fromiter(map(its.index.__getitem__, mine.index), np.int64, len(at))
        for here in (slice(i, i + BLOCK) for i in range(0, len(at), BLOCK)):
            rows = mine.rows[at[here]]
            rows[:, :, columns] = its.rows[given[here], :, : len(columns)]
            rows[:, 0, columns] /= share
            mine.write(at[here], rows, mine.mu[at[here]], length)


def member_of(
    wide: Model, seat: int, config: ModelConfig, bias: NDArray[np.float64], mu: float
) -> Model:
    """One of the models of a mean, to be trained; it has this config, this bias, and everywhere
    this multiplier.

    If k is no power of two, its ad vectors differ from the original in the last bit.
    """
    model = Model(config)
    _copy_keys(wide, model)
    places = _places(model.shape, wide.shape, seat)
    for (its, mine), columns, share in zip(
        _sides(model, wide), places, _shares(model, wide), strict=True
    ):
        at, given, length = its.alive(), mine.alive(), len(columns)
        for here in (slice(i, i + BLOCK) for i in range(0, len(at), BLOCK)):
            rows = np.zeros((len(at[here]), *its.rows.shape[1:]), np.float32)
            rows[:, :, :length] = mine.rows[given[here]][:, :, columns]
            rows[:, 0] *= share
            its.write(at[here], rows, np.full(len(rows), mu, np.float32), length)
    model.bias[:] = bias
    return model


def put_members(
    start: WorkingSet,
    shape: Shape,
    config: ModelConfig,
    chunk: Chunk,
    members: Sequence[Tables | None],
) -> None:
    """Write the rows that members have trained into a mean's working set, of this shape.

    None: a member has skipped the chunk. It keeps its rows, and new values get their first vectors.
    The bias stays as it is.
    """
    narrow = config.shape
    sides = (
        (start.tables.user, shape.user_padded, narrow.user_padded, 1),
        (start.tables.ad, shape.ad_padded, narrow.ad_padded, len(members)),
    )
    for side, (flat, width, narrow_width, share) in enumerate(sides):
        rows = flat.reshape(-1, PARTS, width)
        keys = (chunk.user_keys, chunk.ad_keys)[side]
        new = np.flatnonzero((start.user_rows, start.ad_rows)[side] < 0)
        for seat, tables in enumerate(members):
            columns = _places(narrow, shape, seat)[side]
            if tables is not None:
                put_columns(flat, width, columns, np.float32(share), tables[side], narrow_width)
            elif len(new):
                first = new_vectors(config, keys, new, len(columns))
                rows[new[:, None], 0, columns] = first / share


def _sides(one: Model, other: Model) -> Iterator[tuple[Side, Side]]:
    yield one.user, other.user
    yield one.ad, other.ad


def _shares(model: Model, wide: Model) -> tuple[np.float32, np.float32]:
    """By what the vectors of a member are divided."""
    return np.float32(1), np.float32(wide.shape.ad // model.shape.ad)


def _copy_keys(like: Model, made: Model) -> None:
    """Make room for the values of another model, in the same order."""
    for mine, its in _sides(made, like):
        alive, at = its.alive(), mine.insert(its.index)
        mine.updates[at] = its.updates[alive]
        mine.touch_each(at, its.seen[alive])
    made.cycle = like.cycle


def _places(narrow: Shape, wide: Shape, seat: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Where the entries of a member's user and ad vectors are in those of the mean."""
    k, o, s = narrow.features, narrow.overlap, narrow.alone
    count = wide.ad // narrow.ad
    user = _side_by_side(((k - 1, o), (1, s)), count, seat)
    return user, _side_by_side(((k * (k - 1) // 2, o), (k, s)), count, seat)


@cache
def _side_by_side(blocks: tuple[tuple[int, int], ...], count: int, seat: int) -> NDArray[np.int64]:
    """The places of a member's blocks, (how many, of what size) each, among those of all."""
    found, first = [], 0
    for blocks_of_size, size in blocks:
        for block in range(blocks_of_size):
            start = first + (block * count + seat) * size
            found.append(np.arange(start, start + size))
        first += blocks_of_size * size * count
    return np.concatenate(found)
