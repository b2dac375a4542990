"""Compiled chunks: dense rows, one key a value whatever its type, and weighted means."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergence.errors import InputError
from support.strategies import examples
from trainer.chunk import MISSING, Chunk, compile_chunk
from trainer.events import as_table, check_events
from trainer.features import Feature, FeatureSpec

SINGLE = FeatureSpec((Feature("a"), Feature("b")), (Feature("c"),), timestamp=None)
MULTI = FeatureSpec(
    (Feature("a"), Feature("b", multi=True, weights="w")), (Feature("c"),), timestamp=None
)


def one_column(values: Any, *, multi: bool = False, weights: Any = None) -> Chunk:
    """A chunk whose only user feature is this column."""
    column = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
    columns = {"x": column, "c": ["ad"] * len(column), "click": [0] * len(column)}
    if weights is not None:
        columns["w"] = weights
    feature = Feature("x", multi=multi, weights=None if weights is None else "w")
    spec = FeatureSpec((feature,), (Feature("c"),), timestamp=None)
    return compile_chunk(check_events(pa.table(columns), spec).table, spec)


def values_of(chunk: Chunk) -> list[list[tuple[str, float]]]:
    """Event by event, the first user feature's values and weights."""
    slots, names = chunk.users, chunk.user_keys.values
    weight = slots.weight if len(slots.weight) else np.ones(len(slots.row))
    return [
        [(names[slots.row[s]], float(weight[s])) for s in range(first, last)]
        for first, last in zip(slots.start, slots.start[1:], strict=False)
    ]


def keys_of(chunk: Chunk) -> list[str]:
    """Event by event, the only value."""
    return [bag[0][0] for bag in values_of(chunk)]


# -- rows ---------------------------------------------------------------------------------------


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from("pqrst"), st.integers(0, 1)),
        min_size=1,
        max_size=40,
    )
)
def test_rows_are_dense_and_the_most_frequent_first(events: list[tuple[str, str, int]]) -> None:
    a, b, click = (list(column) for column in zip(*events, strict=True))
    table = pa.table({"a": a, "b": b, "c": b, "click": click})
    chunk = compile_chunk(check_events(table, SINGLE).table, SINGLE)
    keys = chunk.user_keys
    assert np.all(np.diff(keys.count) <= 0)
    pairs = list(zip(keys.feature.tolist(), keys.values, strict=True))
    assert len(set(pairs)) == len(pairs)
    for (feature, value), count in zip(pairs, keys.count.tolist(), strict=True):
        assert (a, b)[feature].count(value) == count > 0
    rows = chunk.users.row.reshape(-1, 2)
    assert set(rows.reshape(-1).tolist()) == set(range(len(keys)))
    assert [[pairs[r] for r in event] for event in rows] == [
        [(0, x), (1, y)] for x, y in zip(a, b, strict=True)
    ]
    assert chunk.ad_keys.feature.tolist() == [2] * len(chunk.ad_keys)
    assert chunk.click.tolist() == click


def test_equal_values_of_different_features_are_different_rows() -> None:
    table = pa.table({"a": ["v"], "b": ["v"], "c": ["v"], "click": [1]})
    chunk = compile_chunk(table, SINGLE)
    assert len(chunk.user_keys) == 2
    assert chunk.users.row.tolist() == [0, 1]


def test_a_chunk_is_read_only() -> None:
    """As arrays out of an object store are, so that both compile alike."""
    table = pa.table({"a": ["p"], "b": [["q"]], "w": [[1.0]], "c": ["r"], "click": [1]})
    for chunk in (compile_chunk(table, MULTI), one_column(["x", "y"])):
        arrays = [chunk.click, *chunk.users, *chunk.ads]
        arrays += [
            k for keys in (chunk.user_keys, chunk.ad_keys) for k in (keys.feature, keys.count)
        ]
        assert not any(array.flags.writeable for array in arrays)


def test_an_empty_table_is_no_chunk() -> None:
    table = pa.table({"a": [], "b": [], "c": [], "click": []})
    with pytest.raises(InputError, match=r"^a chunk must have at least one event, but the table"):
        compile_chunk(table, SINGLE)


def test_without_labels_every_click_is_zero() -> None:
    table = pa.table({"a": ["p", "q"], "b": ["q", "q"], "c": ["r", "r"]})
    chunk = compile_chunk(table, SINGLE, labelled=False)
    assert chunk.click.tolist() == [0, 0]
    assert len(chunk) == 2


@pytest.mark.parametrize(
    ("click", "loss"), [([0, 0], 0.0), ([1, 1], 0.0), ([0, 1], np.log(2)), ([0, 0, 0, 1], 0.562335)]
)
def test_the_constant_models_log_loss(click: list[int], loss: float) -> None:
    n = len(click)
    chunk = compile_chunk(
        pa.table({"a": ["p"] * n, "b": ["p"] * n, "c": ["p"] * n, "click": click}), SINGLE
    )
    assert chunk.constant_logloss == pytest.approx(loss, abs=1e-6)


# -- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["30", None, "7"]),
        pa.array(["30", "", "7"]),
        pa.array([30, None, 7]),
        pa.array([30, None, 7], pa.uint8()),
        pa.array([30.0, None, 7.0]),
        pa.array([30.0, float("nan"), 7.0]),
        pa.array([30.0, float("nan"), 7.0], pa.float32()),
        pa.array(np.array([30.0, np.nan, 7.0], np.float16)),
        pa.array(["30", None, "7"], pa.large_string()),
        pa.array(["30", None, "7"], pa.string_view()),
        pa.array(["30", None, "7"]).dictionary_encode(),
        pa.array([30.0, None, 7.0]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([2, 1, 0], pa.int8()), pa.array([7, None, 30])),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1]), pa.array(["30", "7", "unused"])),
    ],
    ids=str,
)
def test_a_value_has_one_key_whatever_its_type(column: pa.Array) -> None:
    assert keys_of(one_column(column)) == ["30", MISSING, "7"]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([30, None, 7]),
        pd.Series([30, None, 7], dtype="Int64"),
        pd.Series(["30", None, "7"]),
        pd.Series(["30", None, "7"], dtype="string"),
        pd.Series(["30", None, "7"], dtype="category"),
    ],
    ids=["float", "Int64", "object", "string", "category"],
)
def test_a_pandas_column_has_the_same_keys(series: pd.Series) -> None:
    frame = pd.DataFrame({"x": series})
    assert keys_of(one_column(as_table(frame).column("x"))) == ["30", MISSING, "7"]


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=8))
def test_whole_floats_are_integers_of_any_size(numbers: list[int]) -> None:
    """pandas makes floats of integers where one is missing; ids must not change with that."""
    whole, real = one_column(pa.array(numbers)), one_column(pa.array(numbers, pa.float64()))
    assert keys_of(whole) == keys_of(real) == [str(n) for n in numbers]


def test_zero_has_no_sign() -> None:
    assert keys_of(one_column([0.0, -0.0])) == ["0", "0"]


def test_other_floats_and_types() -> None:
    assert keys_of(one_column([0.1, -2.5, float("inf"), 1e300])) == ["0.1", "-2.5", "inf", "1e+300"]
    assert keys_of(one_column(pa.array([0.1], pa.float32()))) == ["0.1"]
    assert keys_of(one_column([True, None, False])) == ["true", MISSING, "false"]
    assert keys_of(one_column([dt.date(2024, 2, 29)])) == ["2024-02-29"]
    assert keys_of(one_column(pa.nulls(2))) == [MISSING, MISSING]


def test_text_is_taken_as_it_is() -> None:
    texts = ["30", " 30", "030", "nan", "None", "ä", "a\0b", "x" * 1000]
    assert keys_of(one_column(texts)) == texts


# -- several values -----------------------------------------------------------------------------


def test_values_without_weights_are_equal_shares() -> None:
    chunk = one_column([["a", "b"], ["c"], ["a", "b", "c", "d"]], multi=True)
    assert values_of(chunk) == [
        [("a", 0.5), ("b", 0.5)],
        [("c", 1.0)],
        [("a", 0.25), ("b", 0.25), ("c", 0.25), ("d", 0.25)],
    ]


def test_weights_are_shares_of_their_sum() -> None:
    chunk = one_column([["a", "b"], ["b"]], multi=True, weights=[[1.0, 3.0], [0.01]])
    assert values_of(chunk) == [[("a", 0.25), ("b", 0.75)], [("b", 1.0)]]


@pytest.mark.parametrize(
    "pairs",
    [
        pa.array([[("a", 1.0), ("b", 3.0)], [("b", 2.0)]], pa.map_(pa.string(), pa.float64())),
        pa.array([[("a", 1), ("b", 3)], [("b", 2)]], pa.map_(pa.string(), pa.int32())),
        pa.array(
            [[{"v": "a", "w": 1.0}, {"v": "b", "w": 3.0}], [{"v": "b", "w": 2.0}]],
            pa.list_(pa.struct([("v", pa.string()), ("w", pa.float32())])),
        ),
    ],
    ids=["map", "map of integers", "structs"],
)
def test_weights_may_come_with_the_values(pairs: pa.Array) -> None:
    assert values_of(one_column(pairs, multi=True)) == [[("a", 0.25), ("b", 0.75)], [("b", 1.0)]]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.string(), 2)], ids=str
)
def test_lists_of_any_kind(kind: pa.DataType) -> None:
    chunk = one_column(pa.array([["a", "b"], ["b", "c"]], kind), multi=True)
    assert values_of(chunk) == [[("a", 0.5), ("b", 0.5)], [("b", 0.5), ("c", 0.5)]]


def test_a_value_listed_twice_counts_once_with_both_weights() -> None:
    chunk = one_column([["a", "b", "a"]], multi=True, weights=[[1.0, 1.0, 2.0]])
    assert values_of(chunk) == [[("a", 0.75), ("b", 0.25)]]
    assert chunk.user_keys.count.tolist() == [1, 1]
    assert values_of(one_column([[30.0, 30.0, 2.0, 2.0]], multi=True)) == [
        [("30", 0.5), ("2", 0.5)]
    ]


def test_a_value_that_weighs_nothing_is_not_there() -> None:
    """It has no part in the mean, so its vector gets no update and no count."""
    chunk = one_column([["a", "b"], ["a"]], multi=True, weights=[[0.0, 2.0], [1.0]])
    assert values_of(chunk) == [[("b", 1.0)], [("a", 1.0)]]
    assert chunk.user_keys.count.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("values", "weights"),
    [
        (pa.array([[], ["a"]], pa.list_(pa.string())), None),
        (pa.array([None, ["a"]], pa.list_(pa.string())), None),
        (pa.array([[None], ["a"]], pa.list_(pa.string())), None),
        (pa.array([[""], ["a"]], pa.list_(pa.string())), None),
        (pa.array([["z"], ["a"]]), [[0.0], [1.0]]),
        (pa.array([["z", "y"], ["a"]]), [[0.0, 0.0], [1.0]]),
    ],
    ids=["empty", "null", "of null", "of nothing", "weightless", "two weightless"],
)
def test_a_list_without_values_is_the_missing_value(values: pa.Array, weights: Any) -> None:
    chunk = one_column(values, multi=True, weights=weights)
    assert values_of(chunk) == [[(MISSING, 1.0)], [("a", 1.0)]]
    assert sorted(chunk.user_keys.values) == [MISSING, "a"]


def test_nothing_among_values_is_a_value() -> None:
    chunk = one_column(pa.array([["a", None], ["a", ""]], pa.list_(pa.string())), multi=True)
    assert values_of(chunk) == [[("a", 0.5), (MISSING, 0.5)]] * 2


def test_an_all_null_column_of_lists() -> None:
    assert values_of(one_column(pa.nulls(2), multi=True)) == [[(MISSING, 1.0)]] * 2


@pytest.mark.parametrize("weight", [1e308, 1.7e308, 5e-324, 1e-300])
def test_shares_of_weights_of_any_size(weight: float) -> None:
    chunk = one_column([["a", "b", "a"], ["c"]], multi=True, weights=[[weight] * 3, [1.0]])
    (a, b), (c,) = values_of(chunk)
    assert (a[1], b[1], c[1]) == pytest.approx((2 / 3, 1 / 3, 1.0), rel=1e-6)


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("pqrs"), st.floats(0, 10, width=32)), max_size=5),
        min_size=1,
        max_size=12,
    )
)
def test_shares_sum_to_one_and_slots_are_in_order(
    events: list[list[tuple[str, float]]],
) -> None:
    n = len(events)
    table = pa.table(
        {
            "a": [str(i % 3) for i in range(n)],
            "b": pa.array([[v for v, _ in bag] for bag in events], pa.list_(pa.string())),
            "w": pa.array([[w for _, w in bag] for bag in events], pa.list_(pa.float64())),
            "c": ["x"] * n,
            "click": [0] * n,
        }
    )
    chunk = compile_chunk(check_events(table, MULTI).table, MULTI)
    slots, keys = chunk.users, chunk.user_keys
    assert np.sum(keys.count) == len(slots.row)
    for i, bag in enumerate(events):
        mine = slice(slots.start[i], slots.start[i + 1])
        feature, weight, row = slots.feature[mine], slots.weight[mine], slots.row[mine]
        assert feature.tolist() == [0] + [1] * (len(feature) - 1)
        assert keys.values[row[0]] == str(i % 3)
        assert np.all(keys.feature[row] == feature)
        assert weight[0] == 1.0
        assert weight[1:].sum() == pytest.approx(1.0, rel=1e-6)
        total = sum(w for _, w in bag)
        wanted = {v: sum(w for u, w in bag if u == v) / total for v, w in bag if w > 0}
        got = {keys.values[r]: float(w) for r, w in zip(row[1:], weight[1:], strict=True)}
        assert got == pytest.approx(wanted or {MISSING: 1.0}, rel=1e-6)


def test_a_side_without_lists_has_weights_where_the_other_has_lists() -> None:
    table = pa.table({"a": ["p"], "b": [["q", "r"]], "w": [[1.0, 1.0]], "c": ["s"], "click": [1]})
    chunk = compile_chunk(table, MULTI)
    assert chunk.ads.weight.tolist() == [1.0]
    assert chunk.ads.feature.tolist() == [0]
    assert chunk.ads.start.tolist() == [0, 1]


def test_a_dictionary_with_a_full_index_type() -> None:
    values = [f"v{i}" for i in range(128)]
    codes = pa.array(range(128), pa.int8())
    table = pa.table(
        {
            "click": np.zeros(128, np.uint8),
            "u": pa.DictionaryArray.from_arrays(codes, values),
            "a": values,
        }
    )
    spec = FeatureSpec((Feature("u"),), (Feature("a"),), timestamp=None)
    assert sorted(compile_chunk(table, spec).user_keys.values) == sorted(values)
