"""Columns by config: names, bins, click rules, times, lists."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from divergence.errors import InputError
from orchestrator.sources.files.config import FilesConfig
from orchestrator.sources.files.mapping.numbers import binned, numbers_of
from orchestrator.sources.files.reading import Column
from support.event_files import ads, rows, source, write
from trainer.features import Feature, FeatureSpec

PLAIN = FeatureSpec((Feature("age"),), (Feature("ad"),), timestamp=None)
LISTS = FeatureSpec((Feature("age"),), (Feature("tags", multi=True),), timestamp=None)


def read(path: Path, spec: FeatureSpec = PLAIN, **more: Any) -> dict[str, list[Any]]:
    return source(path, spec, max_broken_share=1, **more).events(0).table.to_pydict()


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "e.csv"
    path.write_text(text)
    return path


def test_columns_are_renamed_and_rated_and_sliced(tmp_path: Path) -> None:
    path = csv(tmp_path, "zip,movie,rating\n94043,m1,4\n10001,m2,3.5\n,m3,5\n")
    columns = {"age": {"column": "zip", "slice": [0, 2]}, "ad": {"column": "movie"}}
    found = read(path, click="rating >= 4", columns=columns)
    assert found == {"click": [1, 0, 1], "age": ["94", "10", ""], "ad": ["m1", "m2", "m3"]}


@pytest.mark.parametrize(
    ("rule", "clicks"),
    [
        ("x >= 4", [0, 1, 1]),
        ("x > 4", [0, 0, 1]),
        ("x <= 4", [1, 1, 0]),
        ("x < 4", [1, 0, 0]),
        ("x == 4", [0, 1, 0]),
        ("x != 4", [1, 0, 1]),
        ("kind == buy", [0, 1, 0]),
        ("kind != 'buy'", [1, 0, 1]),
    ],
)
def test_click_rules(tmp_path: Path, rule: str, clicks: list[int]) -> None:
    path = csv(tmp_path, "age,ad,x,kind\n1,a,3,see\n1,a,4,buy\n1,a,5,see\n")
    assert read(path, click=rule)["click"] == clicks


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ({"bins": [18, 25.5]}, ["<18", "[18,25.5)", "[18,25.5)", ">=25.5", None]),
        ({"log": 2}, ["[16,32)", "[16,32)", "[16,32)", "[32,64)", None]),
        ({"round": 5}, ["15", "20", "20", "40", None]),
        ({}, ["17", "18", "20", "41", ""]),
    ],
)
def test_numbers_are_binned(tmp_path: Path, column: dict[str, Any], names: list[str]) -> None:
    path = csv(tmp_path, "click,ad,age\n0,a,17\n0,a,18\n0,a,20\n0,a,41\n0,a,\n")
    assert read(path, columns={"age": column})["age"] == names


@settings(derandomize=True)
@given(st.floats(1e-9, 1e12), st.sampled_from([1.5, 2.0, 10.0]))
def test_a_power_bin_holds_its_number(number: float, base: float) -> None:
    edges = np.array([number, base ** round(np.log(number) / np.log(base)), 0.0, -number])
    *inside, zero, negative = binned(edges, Column(log=base)).to_pylist()
    for value, name in zip(edges, inside, strict=False):
        low, high = (float(edge) for edge in name[1:-1].split(","))
        assert low * (1 - 1e-9) <= value < high * (1 + 1e-9)
    assert (zero, negative) == ("0", "<0")


@settings(derandomize=True)
@given(st.lists(st.one_of(st.floats().map(repr), st.text("1e.+-naif ", max_size=5))))
def test_texts_are_numbers_or_not_as_python_has_it(texts: list[str]) -> None:
    found = numbers_of(pa.array(texts, pa.string()))
    for text, value, bad in zip(texts, found.values, found.unparsable, strict=True):
        try:
            plain, parsed = float(text), True
        except ValueError:
            plain, parsed = np.nan, False
        assert value == plain or (np.isnan(value) and np.isnan(plain))
        assert bad == (not parsed and text.strip() != "")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.binary(), pa.list_(pa.int64())])
def test_what_cannot_be_a_number_is_told_apart_from_nothing(kind: pa.DataType) -> None:
    filled = {"timestamp[us]": 1, "binary": b"x"}.get(str(kind), [1])
    found = numbers_of(pa.array([filled, None], kind))
    assert found.unparsable.tolist() == [True, False]
    assert np.isnan(found.values).all()


def test_lists_from_delimited_text_with_weights(tmp_path: Path) -> None:
    spec = FeatureSpec((Feature("age"),), (Feature("tags", True, "w"),), timestamp=None)
    text = "click,age,tags,w\n0,1,a|b,0.5|1\n1,1,,\n0,1,c,2\n0,1,c,x\n0,1,c|d,2\n"
    stream = source(
        csv(tmp_path, text), spec, max_broken_share=1,
        columns={"tags": {"split": "|"}, "w": {"split": "|"}},
    )  # fmt: skip
    events = stream.events(0)
    assert events.table.column("tags").to_pylist() == [["a", "b"], None, ["c"]]
    assert events.table.column("w").to_pylist()[0] == [0.5, 1.0]
    assert events.set_aside == {
        "a weight in w is not a number": 1,
        "w and tags differ in length": 1,
    }


def test_lists_from_json_and_parquet(tmp_path: Path) -> None:
    events = [{"click": 0, "age": 1, "tags": [1, 2]}, {"click": 1, "age": 2, "tags": []}]
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    assert read(path, LISTS) == {"click": [0, 1], "age": ["1", "2"], "tags": [["1", "2"], []]}
    pq.write_table(pa.Table.from_pylist(events), tmp_path / "e.parquet")
    assert read(tmp_path / "e.parquet", LISTS) == {
        "click": [0, 1],
        "age": [1, 2],
        "tags": [[1, 2], []],
    }


def test_weights_that_come_with_the_values(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(
        '{"click": 0, "age": 1, "tags": {"a": 1, "b": 0.5}}\n{"click": 0, "tags": {"c": -1}}\n'
    )
    events = source(path, LISTS, max_broken_share=1).events(0)
    assert events.table.column("tags").to_pylist() == [[("a", 1.0), ("b", 0.5)]]
    assert events.set_aside == {"a weight in tags is negative": 1}
    path.write_text('{"click": 0, "age": 1, "tags": [{"v": "a", "w": 1}, {"v": "b", "w": 0.5}]}\n')
    found = read(path, LISTS)["tags"]
    assert found == [[{"v": "a", "w": 1.0}, {"v": "b", "w": 0.5}]]


def test_a_multi_feature_of_text_wants_a_separator(tmp_path: Path) -> None:
    path = csv(tmp_path, "click,age,tags\n0,1,a|b\n")
    with pytest.raises(InputError, match=r"e\.csv: column 'tags' is text.*columns\.tags\.split"):
        read(path, LISTS)


def test_missing_texts_and_optional_columns(tmp_path: Path) -> None:
    path = csv(tmp_path, "click,age\n0,NA\n1,3\n")
    found = read(path, missing=["NA"], columns={"ad": {"optional": True}})
    assert found == {"click": [0, 1], "age": [None, "3"], "ad": [None, None]}


def test_json_values_are_the_same_texts_whatever_else_is_in_the_block(tmp_path: Path) -> None:
    big = 2**64 - 1
    values = [1, 2.0, 2.5, True, "x", None, big]
    texts = ["1", "2", "2.5", "true", "x", None, str(big)]
    path = tmp_path / "e.jsonl"
    for low, high in ((0, 7), (0, 1), (1, 3), (3, 4), (6, 7), (0, 3)):
        events = [{"click": 0, "age": value, "ad": 0} for value in values[low:high]]
        path.write_text("".join(json.dumps(event) + "\n" for event in events))
        assert read(path)["age"] == texts[low:high]


def test_files_of_integers_and_of_texts_in_one_cycle_become_texts(tmp_path: Path) -> None:
    for name, value in (("a", 3), ("b", "4")):
        pq.write_table(
            pa.table({"click": [0], "age": [value], "ad": pa.nulls(1)}), tmp_path / f"{name}.pq"
        )
    assert read(tmp_path)["age"] == ["3", "4"]


def test_dictionary_columns(tmp_path: Path) -> None:
    table = pa.table({"click": [True, False], "age": [1.0, None], "ad": ["a", "b"]})
    table = table.set_column(2, "ad", table.column("ad").dictionary_encode())
    pq.write_table(table, tmp_path / "e.parquet")
    assert read(tmp_path / "e.parquet") == {"click": [1, 0], "age": ["1", None], "ad": ["a", "b"]}


NOON = datetime(2024, 7, 1, 12, tzinfo=UTC)
SECONDS = int(NOON.timestamp())


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (str(SECONDS), {"unit": "s"}),
        (f"{SECONDS}.0", {"unit": "s"}),
        (f"{SECONDS}000", {"unit": "ms"}),
        (f"{SECONDS}000000", {"unit": "us"}),
        (f"{SECONDS}000000000", {"unit": "ns"}),
        ("2024-07-01T12:00:00Z", {}),
        ("2024-07-01 14:00:00+02:00", {}),
        ("2024-07-01T12:00:00.000000000Z", {}),
        ("2024-07-01 12:00:00", {}),
        ("2024-07-01T14:00", {"timezone": "Europe/Berlin"}),
        ("24070112", {"format": "%y%m%d%H"}),
        ("01.07.2024 14:00", {"format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"}),
    ],
)
def test_times(tmp_path: Path, written: str, rule: dict[str, str]) -> None:
    path = csv(tmp_path, f"timestamp,click,age,ad\n{written},0,1,a\n")
    events = source(path, timestamp=rule).events(0)
    assert events.table.column("timestamp").to_pylist() == [NOON]


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (pa.timestamp("ms", "Europe/Berlin"), {}),
        (pa.timestamp("ns"), {}),
        (pa.int64(), {"unit": "s"}),
        (pa.float64(), {"unit": "s"}),
    ],
)
def test_times_of_parquet_types_cut_by_time(
    tmp_path: Path, kind: pa.DataType, rule: dict[str, str]
) -> None:
    number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    times = [SECONDS, None, SECONDS + 60, SECONDS + 3600]
    if not number:
        stamps = pa.array([t and t * 1000 for t in times], pa.int64()).cast(pa.timestamp("ms"))
        zoned = kind.tz is not None
        column = (stamps.cast(pa.timestamp("ms", "UTC")) if zoned else stamps).cast(kind)
    else:
        column = pa.array(times, kind)
    table = pa.table({"timestamp": column, "click": [0] * 4, "age": [1] * 4, "ad": list("abcd")})
    pq.write_table(table, tmp_path / "e.parquet")
    stream = source(tmp_path / "e.parquet", timestamp=rule, cut={"minutes": 30}, max_broken_share=1)
    assert [ads(stream.events(cycle)) for cycle in range(3)] == [["a", "c"], [], ["d"]]
    assert stream.events(0).set_aside == {"timestamp is null": 1}
    assert stream.events(0).table.column("timestamp").to_pylist()[0] == NOON


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": {"age": {"bins": [3, 1]}}}, "edges must increase, but are"),
        ({"columns": {"age": {"bins": [1], "log": 2}}}, "only one of bins, log, round"),
        ({"columns": {"age": {"slice": [2, 2]}}}, "start < stop"),
        ({"click": "rating"}, "must look like 'rating >= 4', but is 'rating'"),
        ({"click": "kind >= buy"}, ">= needs a number"),
        ({"timestamp": {"timezone": "Mars"}}, "unknown time zone 'Mars'"),
        ({"timestamp": {"unit": "s", "format": "%y"}}, "only one of unit and format"),
        ({"cut": {}}, "exactly one of minutes and events"),
        ({"cut": {"minutes": 1, "events": 1}}, "exactly one of minutes and events"),
        ({"cut": {"events": 1, "start": NOON}}, "start can only be given with minutes"),
        ({"colums": {}}, "Extra inputs are not permitted"),
    ],
)
def test_config_mistakes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FilesConfig.model_validate({"path": "x", "cut": {"events": 1}, **given})


def test_a_mapping_for_no_feature(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", rows(1))
    with pytest.raises(
        InputError, match=r"source.columns.agee does not belong to a feature; .* age, ad"
    ):
        source(path, columns={"agee": {"log": 2}})


def test_a_rule_without_effect_on_its_feature_stops_before_training(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", rows(3))
    with pytest.raises(InputError, match=r"columns\.ad\.split: .*write {name: ad, multi: true}"):
        source(path, columns={"ad": {"split": "|"}}).events(0)
