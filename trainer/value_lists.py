"""Lists of values, for `compile_chunk`: normalise them, and write them as rows of events."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import compiling, jit
from trainer.kernel import EventRows

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


class ValueLists(NamedTuple):
    """One feature of all events, read-only: codes of values, how many an event has, and weights.

    Without lengths and weights, each event has one value, of weight 1.
    """

    codes: Ints
    lengths: Longs
    weights: NDArray[np.float32]


@jit
def write_rows(lists: ValueLists, rows: Ints, number: int, place: Longs, slots: EventRows) -> None:
    """Write one feature of every event to `place`, and advance it; `rows` is by code."""
    listed, value = len(lists.lengths) > 0, 0
    for event in range(len(place)):
        first = place[event]
        end = first + (lists.lengths[event] if listed else 1)
        for at in range(first, end):
            slots.row[at] = rows[lists.codes[value]]
            slots.feature[at] = number
            slots.weight[at] = lists.weights[value] if listed else 1.0
            value += 1
        place[event] = end


@jit
def normalised(
    codes: Ints, lengths: Longs, weights: NDArray[np.float64], values: int, missing: int
) -> tuple[Ints, Longs, NDArray[np.float32]]:
    """(codes, lengths, weights) of lists in which values count once and weights sum to 1.

    Values of weight 0 are left out; a list that is then empty holds `missing` alone.
    """
    most = len(codes) + len(lengths)
    code, length = np.empty(most, np.int32), np.empty(len(lengths), np.int64)
    share, heavy = np.empty(most, np.float32), np.empty(most, np.float64)
    where = np.zeros(values, np.int64)  # of each value in `code`, if it is there: see below
    value = first = 0
    for event in range(len(lengths)):
        end = first
        for _ in range(lengths[event]):
            this = codes[value]
            at = where[this]
            if first <= at < end and code[at] == this:
                heavy[at] += weights[value]
            else:
                where[this], code[end], heavy[end] = end, this, weights[value]
                end += 1
            value += 1
        total, kept = 0.0, first
        for at in range(first, end):
            if heavy[at] > 0:
                code[kept], heavy[kept] = code[at], heavy[at]
                total += heavy[at]
                kept += 1
        if kept == first:
            code[first], heavy[first], total, kept = missing, 1.0, 1.0, first + 1
        for at in range(first, kept):
            share[at] = heavy[at] / total
        length[event], first = kept - first, kept
    return code[:first], length, share[:first]


@cache
def warm_up_value_lists() -> None:
    """Compile or load these kernels, one process at a time."""
    codes, lengths, weights = np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0)
    shares = weights.astype(np.float32)
    slots = EventRows(lengths.copy(), codes.copy(), codes.copy(), shares.copy())
    for array in (codes, lengths, weights, shares):
        array.setflags(write=False)
    with compiling():
        normalised(codes, lengths, weights, 0, 0)
        write_rows(ValueLists(codes, lengths, shares), slots.row, 0, slots.start, slots)
