"""Predictions of a model. Scoring does not change the model.

A value that the model has not seen gets the initial vector that training would give it, drawn from
(seed, feature, value): a score is exactly what the trainer would predict before it trains on the
event.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.errors import InputError
from divergence.jit import compiling
from divergence.lanemath import CONSTANTS
from trainer.chunk import Chunk, compile_chunk
from trainer.events import as_table, check_columns, weight_faults
from trainer.features import FeatureSpec
from trainer.geometry import Shape
from trainer.instance import Buffers, empty_inputs
from trainer.kernel import EventRows, Tables, total_loss
from trainer.model import Model
from trainer.predict import number_distinct, predict_block
from trainer.static_shape import StaticShape

if TYPE_CHECKING:  # slow to load, and trainer processes never need it
    import pandas as pd

NO_NUMBERS = np.zeros(0, np.int32)
NO_NUMBERS.setflags(write=False)
_warm: set[Shape] = set()


class DistinctAds(NamedTuple):
    """Each ad of a chunk once, and which of them each event is about.

    Where most ads occur once, these are the ads of all events, and there are no numbers.
    """

    rows: EventRows
    number: NDArray[np.int32]


def score(
    model: Model,
    events: "pa.Table | pd.DataFrame",
    compiled: Callable[[Chunk], None] | None = None,
) -> NDArray[np.float64]:
    """The predicted click probability of every event. Labels and timestamps are not needed.

    `compiled` is called with the events as a chunk, if there are any.
    """
    spec = model.config.spec
    table = checked_to_score(events, spec)
    if len(table) == 0:
        return np.zeros(0)
    chunk = compile_chunk(table, spec, labelled=False)
    if compiled is not None:
        compiled(chunk)
    tables = model.gather(chunk, model.cycle).tables
    return sigmoid(predict(model.shape, chunk, tables))


def checked_to_score(events: "pa.Table | pd.DataFrame", spec: FeatureSpec) -> pa.Table:
    """The events as a table. InputError if a column is missing or a row cannot be scored."""
    table = as_table(events)
    check_columns(table, spec, label=False)
    for feature in spec.features:
        for bad, reason in weight_faults(table, feature):
            if bad.any():
                raise InputError(f"row {int(np.argmax(bad))} cannot be scored: {reason}")
    return table


def predict(
    shape: Shape, chunk: Chunk, tables: Tables, buffers: Buffers | None = None
) -> NDArray[np.float32]:
    """The logit of every event of a chunk, from its working set."""
    warm_up_predict(shape)
    logits = np.empty(len(chunk), np.float32)
    own = (buffers or Buffers()).copy_of(tables)
    predict_block(chunk.users, chunk.ads, own, StaticShape(shape), NO_NUMBERS, logits)
    return logits


def distinct_ads(shape: Shape, chunk: Chunk) -> DistinctAds:
    """The ads of a chunk, each once: for all models that are scored on it."""
    warm_up_predict(shape)
    number, first = np.empty(len(chunk), np.int32), np.empty(len(chunk), np.int64)
    table = np.full(1 << (2 * len(chunk)).bit_length(), -1, np.int32)
    count = number_distinct(chunk.ads, shape.ad_slots, table, number, first)
    if 2 * count > len(chunk):
        return DistinctAds(chunk.ads, NO_NUMBERS)
    number.setflags(write=False)
    return DistinctAds(some_events(chunk.ads, first[:count]), number)


def served_logloss(
    shape: Shape, chunk: Chunk, ads: DistinctAds, tables: Tables, buffers: Buffers
) -> float:
    """The log-loss of a working set on its chunk, before it trains."""
    margin = buffers.margins(len(chunk))
    logits = margin[: len(chunk)]
    predict_block(chunk.users, ads.rows, tables, StaticShape(shape), ads.number, logits)
    np.negative(logits, out=logits, where=chunk.click != 0)
    return float(total_loss(margin, len(chunk), CONSTANTS)) / len(chunk)


def some_events(rows: EventRows, chosen: NDArray[np.int64]) -> EventRows:
    """Some of the events."""
    length = rows.start[chosen + 1] - rows.start[chosen]
    start = np.concatenate([[0], np.cumsum(length)])
    slots = np.arange(start[-1]) + np.repeat(rows.start[chosen] - start[:-1], length)
    picked: list[Any] = [array[slots] if len(array) else array for array in rows[1:]]
    for array in (start, *picked):
        array.setflags(write=False)
    return EventRows(start, *picked)


def warm_up_predict(shape: Shape) -> None:
    """Compile (or load) the kernel for this shape, one process at a time."""
    if shape in _warm:
        return
    rows, tables = empty_inputs()
    with compiling():
        logits = np.zeros(0, np.float32)
        predict_block(rows, rows, tables, StaticShape(shape), NO_NUMBERS, logits)
        nothing, numbers = np.zeros(0, np.int64), np.zeros(0, np.int32)
        number_distinct(rows, shape.ad_slots, np.zeros(1, np.int32), numbers, nothing)
        total_loss(logits, 0, CONSTANTS)
    _warm.add(shape)


def sigmoid(logits: NDArray[Any]) -> NDArray[np.float64]:
    """1 / (1 + exp(-logit)), stable at any logit."""
    decay = np.exp(-np.abs(logits.astype(np.float64)))
    return np.where(logits >= 0, 1.0, decay) / (1.0 + decay)


def log_loss(logits: NDArray[Any], click: NDArray[np.uint8]) -> float:
    """The mean log-loss, stable at any logit."""
    margin = np.where(click != 0, -logits, logits).astype(np.float64)
    return float(np.logaddexp(0.0, margin).mean())
