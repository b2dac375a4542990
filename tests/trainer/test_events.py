"""Checks of event tables: every row of the table in trainer/events.py, and tables that pass."""

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from divergence.errors import InputError
from trainer.chunk import compile_chunk
from trainer.events import check_events
from trainer.features import Feature, FeatureSpec

SPEC = FeatureSpec(
    (Feature("age"), Feature("genres", multi=True, weights="shares")), (Feature("ad"),)
)


def events(**columns: Any) -> pa.Table:
    """Four good events, with some columns replaced."""
    good = {
        "click": [0, 1, 0, 1],
        "timestamp": [1, 2, 3, 4],
        "age": ["30", "40", "30", "50"],
        "genres": [["a", "b"], ["a"], ["c"], ["b", "c"]],
        "shares": [[1.0, 2.0], [1.0], [0.5], [3.0, 1.0]],
        "ad": [7, 8, 7, 9],
    }
    return pa.table({**good, **columns})


def reasons(table: pa.Table, spec: FeatureSpec = SPEC) -> list[str]:
    """Why rows are set aside; together with the good ones they are all there."""
    checked = check_events(table, spec)
    assert len(checked.table) + len(checked.set_aside) == len(table)
    return list(checked.set_aside.column("reason").to_pylist())


def refusal(table: Any, spec: FeatureSpec = SPEC) -> str:
    with pytest.raises(InputError) as caught:
        check_events(table, spec)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_good_events_pass() -> None:
    checked = check_events(events(), SPEC)
    assert len(checked.table) == 4
    assert (len(checked.set_aside), checked.reordered) == (0, 0)
    assert checked.table.schema.field("click").type == pa.uint8()
    assert "reason" in checked.set_aside.column_names


def test_only_the_specs_columns_are_kept() -> None:
    checked = check_events(events(noise=[1, 2, 3, 4], reason=list("abcd")), SPEC)
    names = ["click", "timestamp", "age", "genres", "shares", "ad"]
    assert checked.table.column_names == names


# -- columns that cannot be used ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["click", "timestamp", "age", "genres", "shares", "ad"])
def test_a_missing_column(name: str) -> None:
    table = events().drop_columns([name])
    assert refusal(table) == (
        f"the events have no column {name!r}; they have {', '.join(table.column_names)}"
    )


def test_several_missing_columns_are_all_named() -> None:
    table = events().drop_columns(["age", "ad"])
    assert refusal(table).startswith("the events have no column 'age', 'ad'; they have ")


def test_a_column_twice() -> None:
    table = events().append_column("age", pa.array([1, 2, 3, 4]))
    assert refusal(table) == "the events have more than one column 'age'"


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        (
            "click",
            ["0", "1", "0", "1"],
            "column 'click' must hold numbers 0 and 1 (or booleans), but its type is string",
        ),
        (
            "timestamp",
            list("abcd"),
            "column 'timestamp' must hold timestamps, dates or numbers, but its type is string",
        ),
        (
            "age",
            [["a"], ["b"], [], ["c"]],
            "column 'age' must hold single values (for lists, set multi: true), "
            "but its type is list<item: string>",
        ),
        (
            "genres",
            list("abcd"),
            "column 'genres' must hold lists of values, maps, or lists of structs, "
            "but its type is string",
        ),
        (
            "shares",
            [1.0, 2.0, 3.0, 4.0],
            "column 'shares' must hold lists of numbers, but its type is double",
        ),
        (
            "shares",
            [["1"], ["1"], ["1"], ["1"]],
            "column 'shares' must hold lists of numbers, but its type is list<item: string>",
        ),
    ],
)
def test_a_type_that_cannot_be_meant(column: str, values: list[Any], message: str) -> None:
    got = refusal(events(**{column: values}))
    assert got.replace("<element:", "<item:") == message


def test_weights_given_twice() -> None:
    pairs = pa.array([[("a", 1.0)]] * 4, pa.map_(pa.string(), pa.float64()))
    assert refusal(events(genres=pairs)) == (
        "column 'genres' already contains weights, so remove weights: 'shares' from the feature"
    )


def test_a_frame_that_is_no_table() -> None:
    frame = pd.DataFrame({"age": ["x", 3, None]})
    assert refusal(frame).startswith("the events cannot be read as a table: ")


# -- rows that are set aside --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, None, 1], ["click is null"]),
        ([0, 2, -1, 1], ["click is not 0 or 1"] * 2),
        ([0.0, 1.0, 0.5, float("nan")], ["click is not 0 or 1"] * 2),
        ([0.0, 1.0, float("inf"), 1.0], ["click is not 0 or 1"]),
        ([True, False, None, True], ["click is null"]),
        (pa.nulls(4), ["click is null"] * 4),
    ],
)
def test_a_label_that_is_none(labels: Any, expected: list[str]) -> None:
    assert reasons(events(click=labels)) == expected


@pytest.mark.parametrize("labels", [[False, True, False, True], [0.0, 1.0, 0.0, 1.0]])
def test_labels_of_any_number_type(labels: list[float]) -> None:
    checked = check_events(events(click=labels), SPEC)
    assert checked.table.column("click").to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([[1.0, None], [1.0], [1.0], [1.0, 1.0]], ["a weight in shares is null or NaN"]),
        ([[1.0, float("nan")], [1.0], [1.0], [1.0, 1.0]], ["a weight in shares is null or NaN"]),
        ([[1.0, float("inf")], [1.0], [1.0], [1.0, 1.0]], ["a weight in shares is infinite"]),
        ([[1.0, -0.5], [1.0], [-1.0], [1.0, 1.0]], ["a weight in shares is negative"] * 2),
        ([[1.0], [1.0], [1.0], [1.0, 1.0]], ["shares and genres differ in length"]),
        ([[1.0, 1.0], None, [1.0], [1.0, 1.0]], ["shares and genres differ in length"]),
    ],
)
def test_a_broken_weight(shares: list[Any], expected: list[str]) -> None:
    assert reasons(events(shares=shares)) == expected


@pytest.mark.parametrize(
    "pairs",
    [
        pa.array([[("a", 1.0)], [("a", None)], [("b", -1.0)], []], pa.map_("string", "float64")),
        pa.array(
            [[("a", 1.0)], [("a", None)], [("b", -1.0)], None],
            pa.list_(pa.struct([("v", pa.string()), ("w", pa.float64())])),
        ),
    ],
    ids=["map", "structs"],
)
def test_broken_weights_that_come_with_the_values(pairs: pa.Array) -> None:
    spec = FeatureSpec((Feature("age"), Feature("genres", multi=True)), (Feature("ad"),))
    assert reasons(events(genres=pairs), spec) == [
        "a weight in genres is null or NaN",
        "a weight in genres is negative",
    ]


def test_an_entry_that_is_null_as_a_whole() -> None:
    """Whoever made the table: Arrow leaves what is below a null open, Parquet makes it null."""
    kind = pa.list_(pa.struct([("v", pa.string()), ("w", pa.float64())]))
    pairs = pa.array([[None], [("a", 1.0)], [("a", 2.0), None], []], kind)
    spec = FeatureSpec((Feature("age"), Feature("genres", multi=True)), (Feature("ad"),))
    assert reasons(events(genres=pairs), spec) == ["a weight in genres is null or NaN"] * 2


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([1, None, 3, 4], ["timestamp is null"]),
        ([1.0, float("nan"), 3.0, 4.0], ["timestamp is null"]),
        ([1.0, float("inf"), 3.0, float("-inf")], ["timestamp is not finite"] * 2),
        ([dt.datetime(2020, 1, 1), None, None, dt.datetime(2020, 1, 2)], ["timestamp is null"] * 2),
    ],
)
def test_a_broken_timestamp(times: list[Any], expected: list[str]) -> None:
    assert reasons(events(timestamp=times)) == expected


def test_a_row_with_two_faults_is_counted_once_with_the_first() -> None:
    table = events(click=[5, 1, 0, 1], shares=[[-1.0, 1.0], [1.0], [1.0], [1.0, 1.0]])
    assert reasons(table) == ["click is not 0 or 1"]


def test_broken_rows_are_kept_as_they_came() -> None:
    table = events(click=[0, 7, 0, 1], extra=["p", "q", "r", "s"])
    aside = check_events(table, SPEC).set_aside
    assert aside.drop_columns(["reason"]).to_pylist() == table.slice(1, 1).to_pylist()


# -- order --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "late"),
    [
        ([1, 2, 3, 4], 0),
        ([1, 1, 1, 1], 0),
        ([2, 1, 3, 4], 1),
        ([4, 3, 2, 1], 3),
        ([9, 1, 2, 3], 3),
        ([1, 3, 2, 3], 1),
    ],
)
def test_late_rows_are_sorted_in_and_counted(times: list[int], late: int) -> None:
    checked = check_events(events(timestamp=times, age=[0, 1, 2, 3]), SPEC)
    order = np.argsort(times, kind="stable").tolist()
    assert checked.table.column("timestamp").to_pylist() == sorted(times)
    assert checked.table.column("age").to_pylist() == order  # ties keep their order
    assert checked.reordered == late


@pytest.mark.parametrize(
    "times",
    [
        [dt.datetime(2020, 1, d, tzinfo=dt.UTC) for d in (3, 1, 2, 4)],
        [dt.date(2020, 1, d) for d in (3, 1, 2, 4)],
        [3.5, 1.5, 2.5, 4.5],
    ],
    ids=["datetimes", "dates", "floats"],
)
def test_time_of_any_type(times: list[Any]) -> None:
    checked = check_events(events(timestamp=times), SPEC)
    assert checked.reordered == 2
    assert checked.table.column("timestamp").to_pylist() == sorted(times)


def test_without_a_timestamp_rows_stay_in_their_order() -> None:
    spec = FeatureSpec(SPEC.user, SPEC.ad, timestamp=None)
    table = events(age=[3, 1, 2, 0]).drop_columns(["timestamp"])
    checked = check_events(table, spec)
    assert checked.table.column("age").to_pylist() == [3, 1, 2, 0]
    assert checked.reordered == 0


def test_broken_rows_do_not_count_as_late() -> None:
    checked = check_events(events(timestamp=[1, 9, 3, 4], click=[0, 5, 0, 1]), SPEC)
    assert checked.reordered == 0


# -- no rows, and tables of other kinds ---------------------------------------------------------


def test_no_rows_are_an_empty_table_and_no_chunk() -> None:
    checked = check_events(events().slice(0, 0), SPEC)
    assert (len(checked.table), len(checked.set_aside)) == (0, 0)
    with pytest.raises(InputError) as caught:
        compile_chunk(checked.table, SPEC)
    assert str(caught.value) == "a chunk must have at least one event, but the table is empty"


def test_only_broken_rows_are_an_empty_table() -> None:
    checked = check_events(events(click=[9, 9, 9, 9]), SPEC)
    assert (len(checked.table), len(checked.set_aside)) == (0, 4)


def test_pandas_and_arrow_agree() -> None:
    table = events(timestamp=[4, 3, 2, 1], click=[0, 1, 9, 1])
    ours, theirs = check_events(table, SPEC), check_events(table.to_pandas(), SPEC)
    assert ours.table.to_pylist() == theirs.table.to_pylist()
    assert ours.reordered == theirs.reordered == 2
    assert len(theirs.set_aside) == 1


def test_a_table_in_many_pieces_is_one_table() -> None:
    pieces = pa.concat_tables([events(), events(timestamp=[5, 6, 7, 8], click=[0, 1, 1, 9])])
    assert pieces.column("age").num_chunks == 2
    checked = check_events(pieces, SPEC)
    assert (len(checked.table), len(checked.set_aside)) == (7, 1)


def test_a_slice_of_a_table_is_a_table() -> None:
    table = pa.concat_tables([events(), events(timestamp=[5, 6, 7, 8])]).combine_chunks()
    sliced = table.slice(3, 3)
    whole = pa.Table.from_pylist(sliced.to_pylist(), schema=sliced.schema)
    assert check_events(sliced, SPEC).table.to_pylist() == whole.to_pylist()
    ours, theirs = (compile_chunk(check_events(t, SPEC).table, SPEC) for t in (sliced, whole))
    assert ours.user_keys.values == theirs.user_keys.values
    np.testing.assert_array_equal(ours.users.weight, theirs.users.weight)


def test_a_frame_with_two_columns_of_one_name_is_one_line() -> None:
    frame = pd.DataFrame([[0, 1, 2]], columns=["click", "u", "u"])
    with pytest.raises(InputError, match=r"cannot be read as a table: .*[Dd]uplicate"):
        check_events(frame, FeatureSpec((Feature("u"),), (Feature("a"),), timestamp=None))
