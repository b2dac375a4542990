"""Predictions of a model. Scoring does not change the model.

A value that the model has not seen gets the initial vector that training would give it, drawn from
(seed, feature, value): a score is exactly what the trainer would predict before it trains on the
event.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from divergence.errors import InputError
from divergence.jit import compiling
from trainer.chunk import Chunk, compile_chunk
from trainer.events import as_table, check_columns, weight_faults
from trainer.geometry import Shape
from trainer.instance import Buffers, empty_inputs
from trainer.kernel import Tables, predict_block
from trainer.model import Model
from trainer.static_shape import StaticShape

_warm: set[Shape] = set()


def score(model: Model, events: pa.Table | pd.DataFrame) -> NDArray[np.float64]:
    """The predicted click probability of every event. Labels and timestamps are not needed."""
    table, spec = as_table(events), model.config.spec
    check_columns(table, spec, label=False)
    for feature in spec.features:
        for bad, reason in weight_faults(table, feature):
            if bad.any():
                raise InputError(f"row {int(np.argmax(bad))} cannot be scored: {reason}")
    if len(table) == 0:
        return np.zeros(0)
    chunk = compile_chunk(table, spec, labelled=False)
    tables = model.gather(chunk, model.cycle).tables
    return sigmoid(predict(model.shape, chunk, tables))


def predict(
    shape: Shape, chunk: Chunk, tables: Tables, buffers: Buffers | None = None
) -> NDArray[np.float32]:
    """The logit of every event of a chunk, from its working set."""
    warm_up_predict(shape)
    logits = np.empty(len(chunk), np.float32)
    own = (buffers or Buffers()).copy_of(tables)
    predict_block(chunk.users, chunk.ads, own, StaticShape(shape), logits)
    return logits


def warm_up_predict(shape: Shape) -> None:
    """Compile (or load) the kernel for this shape, one process at a time."""
    if shape in _warm:
        return
    rows, tables = empty_inputs()
    with compiling():
        predict_block(rows, rows, tables, StaticShape(shape), np.zeros(0, np.float32))
    _warm.add(shape)


def sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 / (1 + exp(-logit)), stable at any logit."""
    decay = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits >= 0, 1.0, decay) / (1.0 + decay)


def log_loss(logits: NDArray[np.float32], click: NDArray[np.uint8]) -> float:
    """The mean log-loss, stable at any logit."""
    margin = np.where(click != 0, -logits, logits).astype(np.float64)
    return float(np.logaddexp(0.0, margin).mean())
