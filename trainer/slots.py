"""Where the values of a chunk's events go: kernels of `compile_chunk`."""

import numpy as np
from numpy.typing import NDArray

from divergence.jit import jit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Reals = NDArray[np.float32]


@jit
def lay(
    codes: Ints,
    lengths: Longs,
    weights: Reals,
    rows: Ints,
    number: int,
    place: Longs,
    row: Ints,
    feature: Ints,
    weight: Reals,
) -> None:
    """Write one feature of every event to `place`, which moves on; `rows` has the row of a code.

    No `lengths` and `weights`: each event has one value, of weight 1.
    """
    listed, value = len(lengths) > 0, 0
    for event in range(len(place)):
        first = place[event]
        end = first + (lengths[event] if listed else 1)
        for at in range(first, end):
            row[at] = rows[codes[value]]
            feature[at] = number
            weight[at] = weights[value] if listed else 1.0
            value += 1
        place[event] = end


@jit
def merge(
    codes: Ints, lengths: Longs, weights: NDArray[np.float64], values: int, missing: int
) -> tuple[Ints, Longs, Reals]:
    """(codes, lengths, weights) of lists in which values count once and weights sum to 1.

    What weighs nothing is left out; a list of which nothing is left holds `missing` alone.
    """
    most = len(codes) + len(lengths)
    code, length = np.empty(most, np.int32), np.empty(len(lengths), np.int64)
    share, heavy = np.empty(most, np.float32), np.empty(most, np.float64)
    where = np.full(values, -1, np.int64)  # of each value, in `heavy`: at or after `first` is here
    value = first = 0
    for event in range(len(lengths)):
        end = first
        for _ in range(lengths[event]):
            this = codes[value]
            if where[this] >= first and where[this] < end and code[where[this]] == this:
                heavy[where[this]] += weights[value]
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
