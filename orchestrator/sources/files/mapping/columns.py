"""Building one column: a label, a feature's values, or their weights.

A feature's values are texts, except for integers of a Parquet schema, which stay integers. Texts
that come as a dictionary stay one: each is mapped once, and compiling a chunk needs one anyway.
Numbers are binned or used as names; `3` is the same name in a CSV file and in a JSON one.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.sources.files.mapping.numbers import binned, is_text, numbers_of
from orchestrator.sources.files.reading import CLICK_RULE, Column, as_number

ENCODED = pa.dictionary(pa.int32(), pa.string())
"""Texts as numbers into a dictionary: how Parquet files hold most of them, and bins come."""
FEW = 4
"""Integers are mapped by a dictionary if there are that many rows for each that is possible."""
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}


class BuiltColumn(NamedTuple):
    """A column, the rows whose content could not be used, and why."""

    values: pa.Array
    unusable: NDArray[np.bool_] | None = None
    reason: str = ""


def label(column: pa.Array, click: str | None, name: str) -> BuiltColumn:
    """The numbers unchanged, or 0 and 1 by a click rule; null if missing."""
    column = plain(column)
    if click is not None:
        return _clicks(column, click)
    if pa.types.is_integer(column.type):
        return BuiltColumn(column.cast(pa.float64(), safe=False))
    numbers = numbers_of(column)
    return BuiltColumn(
        pa.array(numbers.values, from_pandas=True), numbers.unparsable, f"{name} is not a number"
    )


def rule_column(click: str) -> str:
    """The column that a click rule compares."""
    parts = CLICK_RULE.fullmatch(click)
    assert parts is not None, "the config checks the rule"
    return parts["column"]


def values(column: pa.Array, rule: Column, missing: Sequence[str], name: str) -> BuiltColumn:
    """One value per row."""
    if is_encoded_text(column.type):
        return _values_of_dictionary(column, rule, missing, name)
    column = _without(plain(column), missing)
    if rule.bins is not None or rule.log is not None or rule.round is not None:
        if (few := _numbered(column)) is not None:
            return _values_of_dictionary(few, rule, (), name)
        numbers = numbers_of(column)
        made = binned(numbers.values, rule)
        return BuiltColumn(made, numbers.unparsable, f"{name} is not a number")
    if rule.slice is not None:
        return BuiltColumn(pc.utf8_slice_codeunits(_text(column), *rule.slice))
    return BuiltColumn(_names(column))


def is_encoded_text(kind: pa.DataType) -> bool:
    """Whether a column of this type is a dictionary of texts, which it stays."""
    return bool(pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type))


def value_lists(column: pa.Array, rule: Column, missing: Sequence[str], name: str) -> BuiltColumn:
    """Several values per row; weights inside the lists are kept."""
    column = plain(column)
    if rule.split is not None:
        return BuiltColumn(_split(_without(column, missing), rule.split))
    if is_text(column.type):
        raise InputError(
            f"column {name!r} is text, but the feature is multi: true; "
            f"set source.columns.{name}.split to what separates its values"
        )
    if pa.types.is_list(column.type) and not pa.types.is_nested(column.type.value_type):
        return BuiltColumn(_each(column, _names))
    return BuiltColumn(column)


def weight_lists(column: pa.Array, rule: Column, name: str) -> BuiltColumn:
    """The weights of several values per row."""
    column = plain(column)
    if rule.split is not None:
        column = _split(column, rule.split)
    if not pa.types.is_list(column.type):
        return BuiltColumn(column)
    parents = pc.list_parent_indices(column).to_numpy()
    unparsable = np.zeros(len(column), dtype=bool)
    unparsable[parents[numbers_of(pc.list_flatten(column)).unparsable]] = True
    made = _each(column, lambda flat: pa.array(numbers_of(flat).values))
    return BuiltColumn(made, unparsable, f"a weight in {name} is not a number")


def as_texts(made: BuiltColumn) -> BuiltColumn:
    """Integers as texts, alone or in lists: inferred types must not differ between blocks."""
    column = made.values
    if pa.types.is_list(column.type) and pa.types.is_integer(column.type.value_type):
        return made._replace(values=column.cast(pa.list_(pa.string())))
    if (few := _numbered(column)) is not None:
        texts = few.dictionary.cast(pa.string())
        column = pa.DictionaryArray.from_arrays(few.indices, texts, safe=False)
    elif pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    return made._replace(values=column)


def plain(column: pa.Array) -> pa.Array:
    """The column without dictionary encoding."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _clicks(column: pa.Array, click: str) -> BuiltColumn:
    parts = CLICK_RULE.fullmatch(click)
    assert parts is not None, "the config checks the rule"
    bound, compare = as_number(parts["value"]), SIGNS[parts["sign"]]
    if bound is None:
        wanted = pa.scalar(parts["value"].strip("'\""), pa.string())
        hits = pc.equal(_text(column), wanted)
        return BuiltColumn((hits if parts["sign"] == "==" else pc.invert(hits)).cast(pa.uint8()))
    numbers = numbers_of(column)
    clicks = np.asarray(compare(numbers.values, bound), dtype=np.uint8)
    made = pa.array(clicks, mask=np.isnan(numbers.values))
    return BuiltColumn(made, numbers.unparsable, f"{parts['column']} is not a number")


def _values_of_dictionary(
    column: pa.DictionaryArray, rule: Column, missing: Sequence[str], name: str
) -> BuiltColumn:
    """The same as for plain values, but each is mapped once, however many rows have it."""
    distinct, codes = column.dictionary, column.indices
    made = values(distinct, rule, missing, name)
    if made.values is distinct and distinct.null_count == 0 and column.type == ENCODED:
        return made._replace(values=column)
    mapped = made.values if is_encoded_text(made.values.type) else made.values.dictionary_encode()
    new = mapped.indices.take(codes)
    recoded = pa.DictionaryArray.from_arrays(new, mapped.dictionary, safe=False)
    if made.unusable is None or not made.unusable.any():
        return BuiltColumn(recoded)
    unusable = pa.array(made.unusable).take(codes).fill_null(False)
    return BuiltColumn(recoded, unusable.to_numpy(zero_copy_only=False), made.reason)


def _numbered(column: pa.Array) -> pa.DictionaryArray | None:
    """Integers as a dictionary of all between the smallest and the largest, if those are few."""
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type):
        return None
    low, high = (end.as_py() for end in pc.min_max(column).values())
    if low is None or high - low >= len(column) // FEW:
        return None
    codes = pc.subtract(column.cast(pa.int64()), low).cast(pa.int32())
    possible = np.arange(high - low + 1) + low  # high + 1 may exceed int64
    return pa.DictionaryArray.from_arrays(codes, pa.array(possible), safe=False)


def _names(column: pa.Array) -> pa.Array:
    column = plain(column)
    kind = column.type
    if pa.types.is_null(kind) or pa.types.is_nested(kind) or pa.types.is_string(kind):
        return column
    if pa.types.is_integer(kind) and not _exceeds_int64(column):
        return column.cast(pa.int64())
    return column.cast(pa.string())


def _exceeds_int64(column: pa.Array) -> bool:
    if not pa.types.is_uint64(column.type):
        return False
    return bool((pc.max(column).as_py() or 0) >= 2**63)


def _split(column: pa.Array, separator: str) -> pa.Array:
    texts = _text(column)
    filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    return pc.split_pattern(filled, separator)


def _each(lists: pa.Array, make: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """The lists, with `make` applied to their items."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), make(pc.list_flatten(lists)))


def _without(column: pa.Array, missing: Sequence[str]) -> pa.Array:
    if not missing or not is_text(column.type):
        return column
    absent = pc.is_in(column, pa.array(missing, column.type))
    return pc.if_else(absent, pa.scalar(None, column.type), column)


def _text(column: pa.Array) -> pa.Array:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())
