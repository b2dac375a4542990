"""Dictionaries of texts, numbered as if the texts had just been encoded.

How often a chunk has a value decides the number of its row, and among equals the order in which
they first appear. So the same events give the same bits, however a file stores its texts.
"""

from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.jit import compiling, jit
from trainer.events import column

Ints = NDArray[np.int32]


def by_appearance(table: pa.Table) -> pa.Table:
    """The same table; each dictionary holds the texts that occur, in order of appearance."""
    for at, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            table = table.set_column(at, field.name, _renumbered(column(table, field.name)))
    return table


def _renumbered(encoded: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values. Codes are int32; a null has none."""
    codes = np.asarray(encoded.indices.cast(pa.int32()).fill_null(-1))
    new, old = np.empty_like(codes), np.empty(len(encoded.dictionary), np.int32)
    _warm_up()
    found = _renumber(codes, np.full(len(old), -1, np.int32), new, old)
    nulls = new < 0 if encoded.null_count else None
    texts = encoded.dictionary.take(pa.array(old[:found]))
    return pa.DictionaryArray.from_arrays(pa.array(new, mask=nulls), texts, safe=False)


@jit
def _renumber(codes: Ints, number: Ints, new: Ints, old: Ints) -> int:
    """Write the new code of each event, and the old code of each new one; how many there are.

    `number` is -1 for each old code. A negative code stays.
    """
    found = 0
    for event in range(len(codes)):
        code = codes[event]
        if code < 0:
            new[event] = code
            continue
        if number[code] < 0:
            number[code] = found
            old[found] = code
            found += 1
        new[event] = number[code]
    return found


@cache
def _warm_up() -> None:
    """Compile or load the kernel, one process at a time."""
    codes, written = np.zeros(0, np.int32), np.zeros(0, np.int32)
    codes.setflags(write=False)
    with compiling():
        _renumber(codes, written, written, written)
