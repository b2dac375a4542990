"""A chunk: the events of one cycle, compiled once for every instance of every arm.

Feature values become dense row numbers, the most frequent first, so that hot rows share cache
lines. A chunk does not depend on a model: arms with different models share chunks.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from trainer.events import column, ragged
from trainer.features import Feature, FeatureSpec
from trainer.kernel import EventRows
from trainer.value_lists import ValueLists, normalised, warm_up_value_lists, write_rows

MISSING = ""
"""The value of an event that has none: null, NaN, the empty string or an empty list."""


@dataclass(frozen=True)
class Keys:
    """The (feature, value) of every row of one side; `count` is how often the chunk has it."""

    feature: NDArray[np.int16]
    value: pa.StringArray
    count: NDArray[np.int64]

    def __getstate__(self) -> dict[str, Any]:
        """The arrays alone, which are sent without a copy; cached properties are computed again."""
        return {"feature": self.feature, "value": self.value, "count": self.count}

    @cached_property
    def values(self) -> list[str]:
        """The values as Python strings."""
        return list(self.value.to_pylist())

    @cached_property
    def pairs(self) -> list[tuple[int, str]]:
        """(feature, value) of every row."""
        return list(zip(self.feature.tolist(), self.values, strict=True))

    def __len__(self) -> int:
        """How many rows there are."""
        return len(self.feature)


@dataclass(frozen=True)
class Chunk:
    """The events of one cycle in order, as read-only arrays."""

    click: NDArray[np.uint8]
    users: EventRows
    ads: EventRows
    user_keys: Keys
    ad_keys: Keys

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.click)

    @property
    def constant_logloss(self) -> float:
        """The log-loss of a model that knows the chunk's click rate and nothing else."""
        return constant_logloss(self.click)


def constant_logloss(click: NDArray[np.uint8]) -> float:
    """The log-loss of the clicks' own rate."""
    rate = float(click.mean())
    return 0.0 if rate in (0.0, 1.0) else -rate * np.log(rate) - (1 - rate) * np.log1p(-rate)


class _Column(NamedTuple):
    """One feature of all events, and the values that its codes number."""

    lists: ValueLists
    values: list[str]


def compile_chunk(table: pa.Table, spec: FeatureSpec, *, labelled: bool = True) -> Chunk:
    """Compile a table that `check_events` has passed. Without labels every click is 0."""
    if len(table) == 0:
        raise InputError("a chunk must have at least one event, but the table is empty")
    click = np.zeros(len(table), np.uint8)
    if labelled:
        click = column(table, spec.label).to_numpy(zero_copy_only=False).astype(np.uint8)
    single = not any(feature.multi for feature in spec.features)
    users, user_keys = compile_side(table, spec.user, 0, single)
    ads, ad_keys = compile_side(table, spec.ad, len(spec.user), single)
    return Chunk(_frozen(click), users, ads, user_keys, ad_keys)


def compile_side(
    table: pa.Table, features: tuple[Feature, ...], first: int, single: bool
) -> tuple[EventRows, Keys]:
    """The features of one side, numbered from `first`; `single`: none holds several values."""
    columns = [_read_column(table, feature) for feature in features]
    counts = np.concatenate([np.bincount(c.lists.codes, minlength=len(c.values)) for c in columns])
    order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
    row_of = np.zeros(len(counts), np.int32)
    row_of[order] = np.arange(len(order), dtype=np.int32)
    offsets = np.cumsum([0] + [len(c.values) for c in columns])
    rows = np.split(row_of, offsets[1:-1])
    number = np.repeat(np.arange(len(columns)), np.diff(offsets))[order]
    names = [value for c in columns for value in c.values]
    keys = Keys(
        _frozen((number + first).astype(np.int16)),
        pa.array([names[i] for i in order], pa.string()),
        _frozen(counts[order].astype(np.int64)),
    )
    return (_fixed_slots if single else _ragged_slots)(columns, rows), keys


def _fixed_slots(columns: list[_Column], rows: list[NDArray[np.int32]]) -> EventRows:
    n, k = len(columns[0].lists.codes), len(columns)
    row = np.stack([r[c.lists.codes] for c, r in zip(columns, rows, strict=True)], axis=1)
    nothing = np.zeros(0, np.int32)
    return EventRows(
        _frozen(np.arange(0, (n + 1) * k, k, dtype=np.int64)),
        _frozen(row.reshape(-1)),
        _frozen(nothing),
        _frozen(nothing.astype(np.float32)),
    )


def _ragged_slots(columns: list[_Column], rows: list[NDArray[np.int32]]) -> EventRows:
    """Put the features of each event side by side, each with its values in order."""
    warm_up_value_lists()
    lengths = [c.lists.lengths for c in columns if len(c.lists.lengths)]
    events = len(lengths[0]) if lengths else len(columns[0].lists.codes)
    start = np.zeros(events + 1, np.int64)
    start[1:] = sum(lengths, start=np.int64(len(columns) - len(lengths)))
    np.cumsum(start, out=start)
    row = np.empty(start[-1], np.int32)
    slots = EventRows(start, row, np.empty_like(row), np.empty(len(row), np.float32))
    place = start[:-1].copy()
    for number, (one, row_of) in enumerate(zip(columns, rows, strict=True)):
        write_rows(one.lists, row_of, number, place, slots)
    for array in slots:
        _frozen(array)
    return slots


def _read_column(table: pa.Table, feature: Feature) -> _Column:
    if not feature.multi:
        codes, values = _encode(column(table, feature.name))
        single = ValueLists(codes, _frozen(np.zeros(0, np.int64)), _frozen(np.zeros(0, np.float32)))
        return _Column(single, values)
    lengths, flat, weights = ragged(table, feature)
    codes, values = _encode(flat)
    if weights is None:
        weights = np.ones(len(codes))
    return _mean_of(codes, values, lengths, weights)


def _mean_of(
    codes: NDArray[np.int32],
    values: list[str],
    lengths: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> _Column:
    """Values listed twice count once with both weights; the weights of an event sum to 1.

    An event has the missing value if its list is empty or its weights sum to 0.
    """
    if not len(weights) == len(codes) == lengths.sum():
        raise ValueError(f"{len(codes)} values, but {len(weights)} weights in all lists")
    if weights.max(initial=0.0) > 2.0**900:  # their sum must not be infinite
        weights = weights * 2.0**-100
    known = MISSING in values
    missing = values.index(MISSING) if known else len(values)
    warm_up_value_lists()
    merged = normalised(codes, _frozen(lengths), _frozen(weights), len(values), missing)
    lists = ValueLists(_frozen(merged[0]), _frozen(merged[1]), _frozen(merged[2]))
    if not known and lists.codes.max(initial=-1) == missing:
        values = [*values, MISSING]
    return _Column(lists, values)


def _encode(array: pa.Array) -> tuple[NDArray[np.int32], list[str]]:
    """The number of each value, and the values as strings; a float like 30.0 becomes 30."""
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices
    if array.null_count:
        codes = pc.fill_null(codes.cast(pa.int64()), len(array.dictionary))
    found = codes.to_numpy(zero_copy_only=False)
    texts = array.dictionary.cast(pa.string()).to_pylist()
    if pa.types.is_floating(array.type.value_type):
        texts = [_text(*pair) for pair in zip(array.dictionary.to_pylist(), texts, strict=True)]
    texts = [text or MISSING for text in texts] + [MISSING] * bool(array.null_count)
    values = list(dict.fromkeys(texts))
    if len(values) < len(texts):  # the same value twice: missing in several ways, or 1 and 1.0
        number = {value: i for i, value in enumerate(values)}
        found = np.array([number[text] for text in texts], np.int32)[found]
    return _frozen(found.astype(np.int32, copy=False)), values


def _text(number: float | None, text: str | None) -> str | None:
    """A float without a fraction as an integer, where Arrow writes 1e+10; NaN as null."""
    if number is None or np.isnan(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 2**63 else text


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make it read-only, as arrays from Ray are: one compilation of a kernel serves both."""
    array.setflags(write=False)
    return array
