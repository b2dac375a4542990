"""The table of the paper's scatter plot: how large each vector is, and how often it was updated."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from divergence.detector import norms
from trainer.chunk import Chunk
from trainer.instance import Trained
from trainer.kernel import EventRows
from trainer.model import Model, WorkingSet, vectors_of


def norm_table(model: Model, chunk: Chunk, before: WorkingSet, trained: Trained) -> pd.DataFrame:
    """Every vector of an instance when it stopped: feature, value, norm (inf) and updates.

    `before` must be gathered from this model; its other vectors are in the table too.
    """
    done, tables = trained.outcome.events_done, trained.tables
    users, ads = vectors_of(tables, model.shape)
    sides = (
        (model.user, chunk.user_keys, chunk.users, before.user_rows, users),
        (model.ad, chunk.ad_keys, chunk.ads, before.ad_rows, ads),
    )
    names = [feature.name for feature in model.config.spec.features]
    frames = []
    for side, keys, slots, rows, vectors in sides:
        known = np.where(rows >= 0, side.updates[np.maximum(rows, 0)] if len(side) else 0, 0)
        frames.append(
            pd.DataFrame(
                {
                    "feature": [names[i] for i in keys.feature],
                    "value": keys.values,
                    "norm": norms(vectors).inf,
                    "updates": known + updates_by(slots, done, len(keys)),
                }
            )
        )
        others = np.setdiff1d(side.alive(), rows)
        untouched = [key for row in others.tolist() if (key := side.keys[row]) is not None]
        frames.append(
            pd.DataFrame(
                {
                    "feature": [names[feature] for feature, _ in untouched],
                    "value": [value for _, value in untouched],
                    "norm": side.inf[others],
                    "updates": side.updates[others],
                }
            )
        )
    return pd.concat([frame for frame in frames if len(frame)], ignore_index=True)


def updates_by(slots: EventRows, events: int, rows: int) -> NDArray[np.int64]:
    """How often the first events updated each row."""
    return np.bincount(slots.row[: slots.start[events]], minlength=rows)
