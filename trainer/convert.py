"""A model for another config: other features, another geometry, another seed.

Entries have a meaning: those of a user feature's vector belong to a pair of features or to the
feature alone, and so do those of an ad feature's. An entry that the new model has, too, is kept
with its sums; all others start as those of a new value. Vectors of features that are gone are
dropped.
"""

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from trainer.initial_vectors import initial_vectors
from trainer.model import Model, ModelConfig, Side

BLOCK = 1 << 16
"""So many rows are copied at a time."""
Entry = tuple[frozenset[str], int]
"""An entry: the user features that it belongs to, and its number among theirs."""


def converted(model: Model, config: ModelConfig) -> Model:
    """The model's vectors in a new model of this config, before its first cycle.

    InputError if the two have no user feature or no ad feature in common.
    """
    old, made = model.config, Model(config)
    for side in ("user", "ad"):
        ours = [f.name for f in getattr(config.spec, side)]
        theirs = [f.name for f in getattr(old.spec, side)]
        if not set(ours) & set(theirs):
            raise InputError(
                f"the models have no {side} feature in common: {', '.join(theirs)} there, "
                f"{', '.join(ours)} here"
            )
    kept = _numbers(old, config)
    ad = _places(_ad_entries(old), _ad_entries(config))
    for before, after, is_user in ((model.user, made.user, True), (model.ad, made.ad, False)):
        for number, feature in enumerate(old.spec.features):
            if number not in kept or (number < len(old.spec.user)) != is_user:
                continue
            places = ad
            if is_user:
                name = feature.name
                places = _places(_user_entries(old, name), _user_entries(config, name))
            _copy(before, after, number, kept[number], places, made)
        alive = after.alive()
        after.touch_each(alive, after.seen[alive] - (model.cycle + 1))
    made.bias[:] = model.bias
    return made


def _numbers(old: ModelConfig, new: ModelConfig) -> dict[int, int]:
    """The new number of each old feature that is still there, on the same side."""
    found = {}
    for side, first, then in (
        ("user", 0, 0),
        ("ad", len(old.spec.user), len(new.spec.user)),
    ):
        names = {f.name: then + i for i, f in enumerate(getattr(new.spec, side))}
        for i, feature in enumerate(getattr(old.spec, side)):
            if feature.name in names:
                found[first + i] = names[feature.name]
    return found


def _user_entries(config: ModelConfig, name: str) -> list[Entry]:
    others = [f.name for f in config.spec.user if f.name != name]
    shared = [(frozenset((name, other)), j) for other in others for j in range(config.overlap)]
    return shared + [(frozenset((name,)), j) for j in range(config.alone)]


def _ad_entries(config: ModelConfig) -> list[Entry]:
    names = [f.name for f in config.spec.user]
    pairs = [frozenset((p, q)) for i, p in enumerate(names) for q in names[i + 1 :]]
    shared = [(pair, j) for pair in pairs for j in range(config.overlap)]
    return shared + [(frozenset((name,)), j) for name in names for j in range(config.alone)]


def _places(old: list[Entry], new: list[Entry]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where entries that both have are: in the old vector, and in the new one."""
    at = {entry: i for i, entry in enumerate(old)}
    both = [(at[entry], i) for i, entry in enumerate(new) if entry in at]
    found = np.array(both, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _copy(
    before: Side,
    after: Side,
    number: int,
    new_number: int,
    places: tuple[NDArray[np.int64], NDArray[np.int64]],
    made: Model,
) -> None:
    """Copy the rows of one feature."""
    rows = np.fromiter(
        (row for (feature, _), row in before.index.items() if feature == number), np.int64
    )
    values = [key[1] for row in rows.tolist() if (key := before.keys[row])]
    at = after.insert((new_number, value) for value in values)
    after.updates[at], after.seen[at] = before.updates[rows], before.seen[rows]
    config, length = made.config, made.shape.user if after is made.user else made.shape.ad
    name = config.spec.features[new_number].name
    for here in (slice(i, i + BLOCK) for i in range(0, len(rows), BLOCK)):
        old = before.rows[rows[here]]
        fresh = np.zeros((len(old), *after.rows.shape[1:]), np.float32)
        first = initial_vectors(config.seed, name, values[here], length, config.init_std)
        fresh[:, 0, :length] = first
        fresh[:, :, places[1]] = old[:, :, places[0]]
        after.write(at[here], fresh, before.mu[rows[here]], length)
