"""Checks of event tables: every fault is found here, before training.

| fault | result |
|---|---|
| a column is missing, or has a type that cannot be used | `InputError`, one line |
| the label is null or not 0/1 | the row is set aside |
| a weight is null, NaN, infinite or negative; weights and values differ in number | set aside |
| the timestamp is null or not finite | the row is set aside |
| timestamps out of order | rows are sorted (stably) and the late ones counted |
| a feature value is null, NaN or the empty string; a list is null or empty, or its weights \
sum to 0 | the missing value, which has a vector of its own |
| no rows | an empty table; training on it is an `InputError` |
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from trainer.features import Feature, FeatureSpec

if TYPE_CHECKING:  # slow to load, and trainer processes never need it
    import pandas as pd


@dataclass(frozen=True, slots=True)
class CheckedEvents:
    """`table`: the good rows in time order, with the spec's columns only (label as uint8).

    `set_aside`: the broken rows, unchanged, with a `reason` column. `reordered`: how many good rows
    came after a row with a later timestamp.
    """

    table: pa.Table
    set_aside: pa.Table
    reordered: int


Fault = tuple[NDArray[np.bool_], str]


class Ragged(NamedTuple):
    """A multi-valued column: the number of values of each row, all values, and their weights."""

    lengths: NDArray[np.int64]
    values: pa.Array
    weights: NDArray[np.float64] | None


def as_table(events: "pa.Table | pd.DataFrame") -> pa.Table:
    """An Arrow table of these events."""
    if isinstance(events, pa.Table):
        return events
    try:
        return pa.Table.from_pandas(events, preserve_index=False)
    except (ValueError, TypeError, NotImplementedError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"the events cannot be read as a table: {reason}") from error


def check_events(events: "pa.Table | pd.DataFrame", spec: FeatureSpec) -> CheckedEvents:
    """Separate good rows from broken ones; raise `InputError` if the table cannot be used."""
    table = as_table(events)
    check_columns(table, spec)
    fault = np.zeros(len(table), dtype=np.intp)  # the first fault stays; 0 is none
    reasons = [""]
    for bad, reason in _faults(table, spec):
        if bad.any():
            fault[bad & (fault == 0)] = len(reasons)
            reasons.append(reason)
    set_aside, good = table.slice(0, 0), table
    if len(reasons) > 1:
        broken = pa.array(fault != 0)
        set_aside, good = table.filter(broken), table.filter(pc.invert(broken))
    reason_of = pa.array([reasons[i] for i in fault[fault != 0]], pa.string())
    set_aside = set_aside.append_column("reason", reason_of)
    good, reordered = _in_time_order(_selected(good, spec), spec)
    return CheckedEvents(good, set_aside, reordered)


def ragged(table: pa.Table, feature: Feature) -> Ragged:
    """The lengths, values and weights of a multi-valued column; null lists are empty."""
    lists, weights = _lists(table, feature.name), None
    flat = pc.list_flatten(lists)
    if pa.types.is_struct(flat.type):
        flat, weights = flat.flatten()  # a null entry has neither
    elif feature.weights is not None:
        weights = pc.list_flatten(_lists(table, feature.weights))
    numbers = None if weights is None else _numbers(weights, feature.weights or feature.name)
    return Ragged(_lengths(lists), flat, numbers)


def column(table: pa.Table, name: str) -> pa.Array:
    """One column as a single array."""
    chunks = table.column(name)
    return chunks.chunk(0) if chunks.num_chunks == 1 else chunks.combine_chunks()


def check_columns(table: pa.Table, spec: FeatureSpec, *, label: bool = True) -> None:
    """Raise `InputError` for a missing column or one whose type cannot be used."""
    others = [spec.label] + ([spec.timestamp] if spec.timestamp is not None else [])
    check_side(table, spec.features, others if label else [])
    if label:
        _check_type(table, spec.label, _is_number, "numbers 0 and 1 (or booleans)")
        if spec.timestamp is not None:
            _check_type(table, spec.timestamp, _is_time, "timestamps, dates or numbers")


def check_side(table: pa.Table, features: Sequence[Feature], others: Sequence[str] = ()) -> None:
    """The same for some features, and for the `others`: columns that must exist."""
    needed = [f.name for f in features]
    needed += [f.weights for f in features if f.weights is not None]
    needed += others
    missing = [name for name in needed if name not in table.column_names]
    if missing:
        raise InputError(
            f"the events have no column {', '.join(map(repr, missing))}; "
            f"they have {', '.join(table.column_names)}"
        )
    for name in needed:
        if table.column_names.count(name) > 1:
            raise InputError(f"the events have more than one column {name!r}")
    for feature in features:
        _check_feature_type(table, feature)


def _check_feature_type(table: pa.Table, feature: Feature) -> None:
    if not feature.multi:
        _check_type(table, feature.name, _is_value, "single values (for lists, set multi: true)")
        return
    _check_type(table, feature.name, _is_values, "lists of values, maps, or lists of structs")
    if feature.weights is not None:
        _check_type(table, feature.weights, _is_number_list, "lists of numbers")
        if _contains_weights(table.schema.field(feature.name).type):
            raise InputError(
                f"column {feature.name!r} already contains weights, so remove weights: "
                f"{feature.weights!r} from the feature"
            )


def _check_type(
    table: pa.Table, name: str, allowed: Callable[[pa.DataType], bool], wanted: str
) -> None:
    kind = table.schema.field(name).type
    if not allowed(kind) and not pa.types.is_null(kind):
        raise InputError(f"column {name!r} must hold {wanted}, but its type is {kind}")


def _faults(table: pa.Table, spec: FeatureSpec) -> Iterator[Fault]:
    """Pairs of (rows with a fault, the reason), most serious first."""
    label = column(table, spec.label)
    clicks = _numbers(label, spec.label)
    if label.null_count:
        yield pc.is_null(label).to_numpy(zero_copy_only=False), f"{spec.label} is null"
    yield ~np.isin(clicks, (0.0, 1.0)), f"{spec.label} is not 0 or 1"
    if spec.timestamp is not None:
        time = column(table, spec.timestamp)
        floating = pa.types.is_floating(time.type)
        if time.null_count or floating:
            bad = pc.is_null(time, nan_is_null=True).to_numpy(zero_copy_only=False)
            yield bad, f"{spec.timestamp} is null"
        if floating:
            yield np.isinf(_numbers(time, spec.timestamp)), f"{spec.timestamp} is not finite"
    for feature in spec.features:
        yield from weight_faults(table, feature)


def weight_faults(table: pa.Table, feature: Feature) -> Iterator[Fault]:
    """The faults in the weights of a feature: pairs of (rows, the reason)."""
    if not feature.multi:
        return
    name = feature.weights or feature.name
    lengths = _lengths(_lists(table, feature.name))
    owner_lengths = lengths
    if feature.weights is not None:
        owner_lengths = _lengths(_lists(table, feature.weights))
        yield lengths != owner_lengths, f"{name} and {feature.name} differ in length"
    weights = ragged(table, feature).weights
    if weights is None:
        return
    owner = np.repeat(np.arange(len(table)), owner_lengths)
    for bad, reason in (
        (np.isnan(weights), "is null or NaN"),
        (np.isinf(weights), "is infinite"),
        (weights < 0, "is negative"),
    ):
        rows = np.zeros(len(table), dtype=bool)
        rows[owner[bad]] = True
        yield rows, f"a weight in {name} {reason}"


def _selected(table: pa.Table, spec: FeatureSpec) -> pa.Table:
    label = pa.array(_numbers(column(table, spec.label), spec.label).astype(np.uint8))
    names = [spec.timestamp] if spec.timestamp is not None else []
    for feature in spec.features:
        names += [feature.name] + ([feature.weights] if feature.weights is not None else [])
    return table.select(names).add_column(0, spec.label, label)


def _in_time_order(table: pa.Table, spec: FeatureSpec) -> tuple[pa.Table, int]:
    if spec.timestamp is None or len(table) < 2:
        return table, 0
    time = column(table, spec.timestamp)
    ticks = time.to_numpy(zero_copy_only=False)
    late = int(np.count_nonzero(ticks[1:] < np.maximum.accumulate(ticks)[:-1]))
    if late:
        table = table.take(pa.array(np.argsort(ticks, kind="stable")))
    return table, late


def _lists(table: pa.Table, name: str) -> pa.Array:
    """A list-like column as a plain list array."""
    lists = column(table, name)
    kind = lists.type
    if pa.types.is_map(kind):
        entry = pa.struct([pa.field("key", kind.key_type, False), ("value", kind.item_type)])
        return lists.cast(pa.list_(entry))
    if pa.types.is_fixed_size_list(kind):
        return lists.cast(pa.list_(kind.value_type))
    return lists.cast(pa.list_(pa.string())) if pa.types.is_null(kind) else lists


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)


def _numbers(values: pa.Array, name: str) -> NDArray[np.float64]:
    """As float64, null as NaN."""
    try:
        return np.asarray(values.cast(pa.float64(), safe=False), dtype=np.float64)
    except pa.ArrowInvalid as error:
        raise InputError(f"column {name!r} must hold numbers: {error}") from error


def _is_number(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_temporal(kind) or pa.types.is_integer(kind)) or bool(
        pa.types.is_floating(kind)
    )


def _is_value(kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_dictionary(kind):
        kind = kind.value_type
    text = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    return bool(text or _is_number(kind) or t.is_date(kind) or t.is_null(kind))


def _is_list(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind))


def _contains_weights(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return _is_value(kind.key_type) and _is_number(kind.item_type)
    return (
        _is_list(kind)
        and pa.types.is_struct(kind.value_type)
        and kind.value_type.num_fields == 2
        and _is_value(kind.value_type.field(0).type)
        and _is_number(kind.value_type.field(1).type)
    )


def _is_values(kind: pa.DataType) -> bool:
    return _contains_weights(kind) or (_is_list(kind) and _is_value(kind.value_type))


def _is_number_list(kind: pa.DataType) -> bool:
    return _is_list(kind) and (_is_number(kind.value_type) or pa.types.is_null(kind.value_type))
