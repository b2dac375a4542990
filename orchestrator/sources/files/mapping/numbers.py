"""Numbers in columns, and the bins they fall into."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orchestrator.sources.files.reading import Column

NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)$"


@dataclass(frozen=True, slots=True)
class Numbers:
    """NaN if missing or not a number; the latter are marked `unparsable`."""

    values: NDArray[np.float64]
    unparsable: NDArray[np.bool_]


def numbers_of(column: pa.Array) -> Numbers:
    """The numbers of a column of numbers, booleans or texts. The empty text is missing."""
    if not is_text(column.type):
        try:
            return Numbers(_floats(column), np.zeros(len(column), dtype=bool))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, times, bytes
            return _none_of(column)
    try:
        return Numbers(_floats(column), np.zeros(len(column), dtype=bool))
    except pa.ArrowInvalid:
        texts = pc.utf8_trim_whitespace(column)
        fits = pc.match_substring_regex(texts, NUMBER)
        values = _floats(pc.if_else(fits, texts, pa.scalar(None, texts.type)))
        absent = pc.or_kleene(pc.is_null(texts), pc.equal(texts, ""))
        wrong = pc.and_not(pc.invert(absent), fits.fill_null(False))
        return Numbers(values, _mask(wrong))


def binned(numbers: NDArray[np.float64], column: Column) -> pa.Array:
    """The name of each number's bin as a dictionary of texts; null for NaN."""
    known = np.isfinite(numbers)
    values = np.where(known, numbers, 0.0)
    with np.errstate(over="ignore"):  # beyond float64 is a bin of its own
        if column.bins is not None:
            codes, labels = _by_edges(values, column.bins)
        elif column.log is not None:
            codes, labels = _by_powers(values, column.log)
        else:
            codes, labels = _by_multiples(values, column.round or 1.0)
    indices = pa.array(codes.astype(np.int32), mask=~known)
    return pa.DictionaryArray.from_arrays(indices, pa.array(labels, pa.string()))


def _by_edges(
    values: NDArray[np.float64], edges: tuple[float, ...]
) -> tuple[NDArray[np.int64], list[str]]:
    codes = np.zeros(len(values), np.int64)
    for edge in edges:  # few: faster than a search for each value
        codes += values >= edge
    return codes, bin_names(edges)


def bin_names(edges: tuple[float, ...]) -> list[str]:
    """The names of the bins between these edges, below the first and from the last on."""
    names = [number_text(edge) for edge in edges]
    inner = [f"[{low},{high})" for low, high in pairwise(names)]
    return [f"<{names[0]}", *inner, f">={names[-1]}"]


def _by_powers(values: NDArray[np.float64], base: float) -> tuple[NDArray[np.int64], list[str]]:
    size = np.where(values > 0, values, 1.0)
    power = np.floor(np.log(size) / np.log(base))
    power += _powers(base, power + 1) <= size  # the logarithm may miss by one at the edges
    power -= _powers(base, power) > size
    power = np.select([values > 0, values == 0], [power, -np.inf], np.inf)
    return _by_value(power, lambda p: power_name(p, base))


def power_of(base: float, power: float) -> float:
    """An edge of the bins that grow by `base`. It decides for files and for single values.

    NumPy's powers of arrays differ in the last bit, by processor.
    """
    try:
        return float(base**power)
    except OverflowError:
        return math.inf


def _powers(base: float, powers: NDArray[np.float64]) -> NDArray[np.float64]:
    distinct, codes = np.unique(powers, return_inverse=True)
    return np.array([power_of(base, float(power)) for power in distinct])[codes]


def power_name(power: float, base: float) -> str:
    """The name of a bin that grows by `base`; -inf and inf stand for 0 and <0."""
    if np.isinf(power):
        return "0" if power < 0 else "<0"
    low, high = power_of(base, power), power_of(base, power + 1)
    return f"[{number_text(low)},{number_text(high)})"


def _by_multiples(values: NDArray[np.float64], step: float) -> tuple[NDArray[np.int64], list[str]]:
    return _by_value(np.rint(values / step) + 0.0, lambda count: number_text(count * step))


def _by_value(
    values: NDArray[np.float64], name: Callable[[float], str]
) -> tuple[NDArray[np.int64], list[str]]:
    distinct, codes = np.unique(values, return_inverse=True)
    return codes, [name(float(value)) for value in distinct]


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    t = pa.types
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind))


def number_text(number: float) -> str:
    """A number as it appears in the names of bins."""
    return f"{number:.12g}"


def _floats(column: pa.Array) -> NDArray[np.float64]:
    floats = column.cast(pa.float64(), safe=False)
    return np.array(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _none_of(column: pa.Array) -> Numbers:
    return Numbers(np.full(len(column), np.nan), _mask(pc.is_valid(column)))


def _mask(array: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=bool)
