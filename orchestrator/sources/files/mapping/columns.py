"""Building one column: a label, a feature's values, or their weights.

A feature's values are texts, except for integers of a Parquet schema, which stay integers.
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
    if click is not None:
        return _clicks(column, click)
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
    column = _without(plain(column), missing)
    if rule.bins is not None or rule.log is not None or rule.round is not None:
        numbers = numbers_of(column)
        made = binned(numbers.values, rule)
        return BuiltColumn(made, numbers.unparsable, f"{name} is not a number")
    if rule.slice is not None:
        return BuiltColumn(pc.utf8_slice_codeunits(_text(column), *rule.slice))
    return BuiltColumn(_names(column))


def value_lists(column: pa.Array, rule: Column, missing: Sequence[str], name: str) -> BuiltColumn:
    """Several values per row; weights inside the lists are kept."""
    if rule.split is not None:
        return BuiltColumn(_split(_without(plain(column), missing), rule.split))
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
    if rule.split is not None:
        column = _split(plain(column), rule.split)
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
    if pa.types.is_integer(column.type):
        return made._replace(values=column.cast(pa.string()))
    return made


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
        hits = pc.equal(_text(plain(column)), wanted)
        return BuiltColumn((hits if parts["sign"] == "==" else pc.invert(hits)).cast(pa.uint8()))
    numbers = numbers_of(plain(column))
    clicks = np.asarray(compare(numbers.values, bound), dtype=np.uint8)
    made = pa.array(clicks, mask=np.isnan(numbers.values))
    return BuiltColumn(made, numbers.unparsable, f"{parts['column']} is not a number")


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
