"""What each of several models would have served on a chunk, eight of them at a time."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import compiling
from divergence.lanemath import CONSTANTS
from divergence.simd import WIDTH
from trainer.chunk import Chunk
from trainer.geometry import Shape
from trainer.instance import Buffers, empty_inputs
from trainer.kernel import EventRows, Tables
from trainer.predict import number_distinct
from trainer.predict_lines import add_losses, group_events, score_together
from trainer.scoring import some_events
from trainer.static_shape import StaticShape

TOGETHER = WIDTH
"""So many models are scored at once."""
_warm: set[Shape] = set()


class EventsByAd(NamedTuple):
    """Each ad of a chunk once, and the events about it: those of ad a are event[start[a] :
    start[a + 1]]."""

    ads: EventRows
    start: NDArray[np.int64]
    event: NDArray[np.int64]


def events_by_ad(shape: Shape, chunk: Chunk) -> EventsByAd:
    """The ads of a chunk: for all models that are scored on it."""
    warm_up_scores(shape)
    number, first = np.empty(len(chunk), np.int32), np.empty(len(chunk), np.int64)
    table = np.full(1 << (2 * len(chunk)).bit_length(), -1, np.int32)
    count = number_distinct(chunk.ads, shape.ad_slots, table, number, first)
    start, event = np.zeros(count + 1, np.int64), np.empty(len(chunk), np.int64)
    group_events(number, start, event)
    return EventsByAd(some_events(chunk.ads, first[:count]), start, event)


def served_loglosses(
    shape: Shape,
    chunk: Chunk,
    by_ad: EventsByAd,
    at: tuple[NDArray[np.int64], NDArray[np.int64]],
    models: list[Tables],
    buffers: Buffers,
) -> list[float]:
    """The log-loss of each model on a chunk, whose user rows and ad rows are `at` these rows of
    its tables."""
    warm_up_scores(shape)
    logits = buffers.take("logits", (len(chunk) + WIDTH) * TOGETHER, np.dtype(np.float32))
    losses: list[float] = []
    for first in range(0, len(models), TOGETHER):
        some = models[first : first + TOGETHER]
        given = some + [some[-1]] * (TOGETHER - len(some))  # a lane that is not needed
        tables = tuple(m.user.reshape(-1) for m in given), tuple(m.ad.reshape(-1) for m in given)
        bias = np.array([model.bias[0] for model in given], np.float32)
        score_together(chunk.users, by_ad, *at, StaticShape(shape), *tables, bias, logits)
        totals = np.zeros(TOGETHER)
        add_losses(logits, chunk.click, CONSTANTS, totals)
        losses += (totals[: len(some)] / len(chunk)).tolist()
    return losses


def warm_up_scores(shape: Shape) -> None:
    """Compile (or load) the kernels for this shape, one process at a time."""
    if shape in _warm:
        return
    rows, tables = empty_inputs()
    real, none, click = np.zeros(0, np.float32), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    bias, static = np.zeros(TOGETHER, np.float32), StaticShape(shape)
    click.setflags(write=False)
    by_ad, eight = EventsByAd(rows, np.zeros(1, np.int64), none), (tables.user,) * TOGETHER
    with compiling():
        number_distinct(rows, shape.ad_slots, np.zeros(1, np.int32), np.zeros(0, np.int32), none)
        group_events(np.zeros(0, np.int32), np.zeros(1, np.int64), none)
        score_together(rows, by_ad, none, none, static, eight, eight, bias, real)
        add_losses(real, click, CONSTANTS, np.zeros(TOGETHER))
    _warm.add(shape)
