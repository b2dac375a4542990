"""Bad input: broken rows are set aside and counted; the rest is one clear line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from divergence.errors import InputError
from orchestrator.sources.files.readers import lines
from support.event_files import HEADER, SPEC, ads, all_events, csv_text, rows, source, write
from support.strategies import examples
from trainer.features import FeatureSpec

DAY = "2024-01-01 00:00:00"


def quarantined(place: Path, cycle: int = 0) -> list[dict[str, Any]]:
    text = (place / "quarantine" / f"cycle-{cycle:06d}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


CSV_FAULTS = {
    "wrong number of fields": "1704067200,1,20",
    "broken quotes": '1704067200,1,"20,ad',
    "not UTF-8 text": b"1704067200,1,20,\xff",
    "timestamp is not a time": "soon,1,20,ad",
    "timestamp is not between 1970 and 2100": "1704067200000,1,20,ad",
    "click is not a number": "1704067200,yes,20,ad",
    "click is not 0 or 1": "1704067200,2,20,ad",
    "click is null": "1704067200,,20,ad",
    "age is not a number": "1704067200,1,twenty,ad",
    "timestamp is null": ",1,20,ad",
}


@pytest.mark.parametrize("cut", [{"events": 1000}, {"minutes": 600}])
@pytest.mark.parametrize("reason", CSV_FAULTS)
def test_a_broken_csv_row_is_set_aside_with_its_line(
    tmp_path: Path, reason: str, cut: dict[str, int]
) -> None:
    line = CSV_FAULTS[reason]
    raw = line if isinstance(line, bytes) else line.encode()
    before, after = csv_text(rows(3)), csv_text(rows(6)[3:]).removeprefix(HEADER)
    path = tmp_path / "e.csv"
    path.write_bytes(before.encode() + b"\r\n" + raw + b"\n" + after.encode())
    columns = {"age": {"bins": [21]}}
    stream = source(path, place=str(tmp_path), columns=columns, cut=cut, max_broken_share=0.2)
    (events,) = all_events(stream)
    assert events.set_aside == {reason: 1}
    assert ads(events) == [f"ad{i}" for i in range(6)]
    assert quarantined(tmp_path) == [
        {
            "cycle": 0,
            "file": str(path),
            "line": 6,
            "reason": reason,
            "raw": raw.decode("utf-8", "replace"),
        }
    ]


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("not a JSON object", '{"timestamp": 17040'),
        ("not a JSON object", "[1, 2]"),
        ("not a JSON object", "{}{}"),
        ("click is null", "{}"),
        ("timestamp is not a time", '{"timestamp": "soon", "click": 1}'),
        ("click is a list", '{"timestamp": 1704067200, "click": [1]}'),
    ],
)
def test_a_broken_json_line_is_set_aside(tmp_path: Path, reason: str, line: str) -> None:
    path = write(tmp_path / "e.jsonl", rows(3))
    path.write_text(path.read_text() + "\n" + line + "\n")
    stream = source(path, place=str(tmp_path), max_broken_share=0.5)
    events = stream.events(0)
    assert ads(events) == ["ad0", "ad1", "ad2"]
    assert events.set_aside == {reason: 1}
    (found,) = quarantined(tmp_path)
    assert (found["line"], found["raw"]) == (5, line)


def test_a_broken_parquet_row_is_set_aside(tmp_path: Path) -> None:
    events = rows(20)
    events[12]["click"] = 7
    write(tmp_path / "e.parquet", events)
    stream = source(tmp_path / "e.parquet", place=str(tmp_path), max_broken_share=0.1)
    assert [len(chunk.table) for chunk in all_events(stream)] == [10, 9]
    (found,) = quarantined(tmp_path, cycle=1)
    assert found["line"] == 13
    assert json.loads(found["raw"]) == events[12]


def test_past_the_share_the_run_stops_with_the_first_example(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(csv_text(rows(8)) + "x,y\nu\n")
    with pytest.raises(InputError) as error:
        source(path, place=str(tmp_path)).events(0)
    assert str(error.value) == (
        "cycle 0: 2 of 10 rows are broken, more than source.max_broken_share 0.01 allows; "
        f"the first: {path} line 10: wrong number of fields: 'x,y'; "
        f"all of them: {tmp_path}/quarantine/cycle-000000.jsonl"
    )
    assert len(quarantined(tmp_path)) == 2
    assert source(path, max_broken_share=0.2).events(0).set_aside == {"wrong number of fields": 2}


def test_broken_rows_across_blocks_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 60)
    path = tmp_path / "e.csv"
    body = csv_text(rows(30)).splitlines(keepends=True)
    body[7:7], body[20:20] = ["bad\n"], ["worse\n"]
    path.write_text("".join(body))
    for cut in ({"events": 4}, {"minutes": 7}):
        stream = source(path, place=str(tmp_path), max_broken_share=1, cut=cut)
        chunks = all_events(stream)
        assert sum(chunk.set_aside.get("wrong number of fields", 0) for chunk in chunks) == 2
        assert [ad for chunk in chunks for ad in ads(chunk)] == [f"ad{i}" for i in range(30)]
        kept = [quarantined(tmp_path, chunk.cycle) for chunk in chunks if chunk.set_aside]
        found = [(entry["line"], entry["raw"]) for entries in kept for entry in entries]
        assert found == [(8, "bad"), (21, "worse")]


def test_a_file_of_nothing_but_broken_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(HEADER + "a,b,c,d\n" * 3)
    for cut in ({"events": 10}, {"minutes": 1}):
        (events,) = all_events(source(path, max_broken_share=1, cut=cut))
        assert (len(events.table), sum(events.set_aside.values())) == (0, 3)


def test_empty_files_are_empty(tmp_path: Path) -> None:
    for name, text in (("a.csv", ""), ("b.csv", HEADER), ("c.jsonl", ""), ("d.csv", HEADER + "\n")):
        (tmp_path / name).write_text(text)
        for cut in ({"events": 1}, {"minutes": 1}):
            assert all_events(source(tmp_path / name, cut=cut)) == []


def one_line(call: Any) -> str:
    with pytest.raises(InputError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_files(tmp_path: Path) -> None:
    gone = tmp_path / "gone.csv"
    assert one_line(lambda: source(gone)) == f"source.path '{gone}' does not exist"
    assert one_line(lambda: source(f"{tmp_path}/*.csv")).endswith("contains no files")
    assert one_line(lambda: source(tmp_path)) == f"source.path '{tmp_path}' contains no files"
    path = write(tmp_path / "e.csv", rows(3))
    stream = source(path)
    path.unlink()
    assert one_line(lambda: stream.events(0)) == f"{path} does not exist"


def test_unknown_places() -> None:
    assert "Protocol not known" in one_line(lambda: source("nowhere://x/y.csv"))


def test_an_unknown_suffix(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text(csv_text(rows(2)))
    assert one_line(lambda: source(path).events(0)) == (
        f"{path}: unknown format; use a suffix (.parquet, .pq, .csv, .tsv, .jsonl, .ndjson, "
        ".json) or set source.format"
    )
    assert ads(source(path, format="csv").events(0)) == ["ad0", "ad1"]


def test_a_file_without_label_or_time_says_which_key_names_them(tmp_path: Path) -> None:
    made = csv_text(rows(3))
    for column, remedy in (
        ("click", "write features.label: COLUMN or source.click: COLUMN == VALUE"),
        ("timestamp", "write source.timestamp: {column: COLUMN, unit: UNIT}"),
    ):
        path = tmp_path / f"{column}.csv"
        path.write_text(made.replace(column, "when", 1))
        assert one_line(lambda path=path: source(path).events(0)).endswith(remedy)


def test_another_delimiter_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(csv_text(rows(3)).replace(",", ";"))
    assert one_line(lambda: source(path).events(0)).endswith(
        "set source.csv.delimiter, probably to ';'"
    )
    assert len(source(path, csv={"delimiter": ";"}).events(0).table) == 3


def test_a_relative_path_without_files_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    expected = f"source.path 'days/*.csv' contains no files in {tmp_path}"
    assert one_line(lambda: source("days/*.csv")) == expected


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_wrong_column_names_the_close_ones(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"e.{suffix}", rows(3))
    wrong = source(path, columns={"age": {"column": "agee"}})
    assert one_line(lambda: wrong.events(0)) == (
        f"{path}: no column 'agee' for 'age'; did you mean 'age'?"
    )
    wrong = source(path, columns={"age": {"column": "xyz"}})
    assert one_line(lambda: wrong.events(0)) == (
        f"{path}: no column 'xyz' for 'age'; it has timestamp, click, age, ad"
    )


def test_a_label_that_is_not_there_names_the_close_ones_and_the_key(tmp_path: Path) -> None:
    path, remedy = tmp_path / "e.csv", "For the label, write features.label: COLUMN or source.click"
    path.write_text("timestamp,clicks,age,ad\n1704067200,1,20,x\n")
    found = one_line(lambda: source(path).events(0))
    assert found.startswith(f"{path}: no column 'click'; did you mean 'clicks'? {remedy}: ")
    path.write_text("timestamp,y,age,ad\n1704067200,1,20,x\n")
    found = one_line(lambda: source(path).events(0))
    assert f"; it has timestamp, y, age, ad. {remedy}: " in found


def test_unreadable_files(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    path.write_bytes(b"PAR1 this is not one")
    assert f"{path} is not readable Parquet: " in one_line(lambda: source(path).events(0))
    whole = write(tmp_path / "whole.parquet", rows(100)).read_bytes()
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])
    assert f"{path} cannot be read: " in one_line(lambda: all_events(source(path)))
    packed = tmp_path / "e.csv.gz"
    packed.write_bytes(gzip.compress(csv_text(rows(1000)).encode())[:500])
    assert f"{packed} cannot be read: " in one_line(lambda: all_events(source(packed)))
    packed.write_bytes(b"not gzip")
    assert f"{packed} cannot be read: " in one_line(lambda: all_events(source(packed)))


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("timestamp,click,age,ad,age\n")
    assert one_line(lambda: source(path).events(0)) == f"{path} has more than one column 'age'"


def test_a_time_zone_mix_within_a_file(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(HEADER + f"{DAY},1,20,a\n{DAY}Z,1,20,a\n")
    assert one_line(lambda: source(path, timestamp={}).events(0)) == (
        f"{path}: times with and without a time zone are mixed ('{DAY}Z' and '{DAY}'); "
        "write all of them in the same way"
    )


@pytest.mark.parametrize("cut", [{"events": 10}, {"minutes": 1}])
def test_a_time_zone_mix_across_files(tmp_path: Path, cut: dict[str, int]) -> None:
    for name, zone in (("a", None), ("b", "UTC")):
        times = pa.array([0], pa.timestamp("s")).cast(pa.timestamp("s", zone))
        table = pa.table({"timestamp": times, "click": [1], "age": [1], "ad": [1]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    text = one_line(lambda: source(tmp_path, timestamp={}, cut=cut).events(0))
    assert text == (
        "times with and without a time zone are mixed "
        f"('{tmp_path}/b.parquet' and '{tmp_path}/a.parquet'); write all of them in the same way"
    )


def test_numbers_without_a_unit(tmp_path: Path) -> None:
    for name in ("e.csv", "e.parquet"):
        path = write(tmp_path / name, rows(2))
        for cut in ({"events": 10}, {"minutes": 1}):
            text = one_line(lambda: source(path, timestamp={}, cut=cut).events(0))  # noqa: B023
            assert text.startswith(f"{path}: times ")
            assert "source.timestamp.unit" in text


def test_times_that_tell_their_unit_and_are_given_another(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    times = pa.array([1, 2], pa.timestamp("us", "UTC"))
    pq.write_table(
        pa.table({"timestamp": times, "click": [0, 1], "age": [1, 1], "ad": [1, 2]}), path
    )
    text = one_line(lambda: source(path, timestamp={"unit": "ms"}, cut={"events": 2}).events(0))
    assert text == (
        f"{path}: times of type timestamp[us, tz=UTC] have a unit already: "
        "remove source.timestamp.unit, which is 'ms'"
    )


def test_a_headerless_file_with_and_without_names(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(csv_text(rows(2)).removeprefix(HEADER))
    with pytest.raises(InputError, match="no column 'click'") as error:
        source(path).events(0)
    assert "a CSV file without a header needs source.csv.columns" in str(error.value)
    names = {"columns": ["timestamp", "click", "age", "ad"]}
    assert ads(source(path, csv=names).events(0)) == ["ad0", "ad1"]


def test_latin_1_tabs_and_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "e.tsv"
    path.write_bytes('timestamp\tclick\tage\tad\n0\t1\té\ta"b\n'.encode("latin-1"))
    events = source(path, csv={"encoding": "latin-1", "quote": None}).events(0)
    assert events.table.select(["age", "ad"]).to_pylist() == [{"age": "é", "ad": 'a"b'}]


def test_a_byte_order_mark_is_no_part_of_the_data(tmp_path: Path) -> None:
    for suffix in ("csv", "jsonl"):
        path = write(tmp_path / f"e.{suffix}", rows(2))
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
        assert ads(source(path).events(0)) == ["ad0", "ad1"]


def test_the_spec_of_a_source_is_the_one_it_was_given(tmp_path: Path) -> None:
    assert source(write(tmp_path / "e.csv", rows(1))).spec is SPEC


def test_what_went_wrong_goes_wrong_again(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", rows(3))
    (tmp_path / "b.csv").write_text("x,y\n")
    for cut in ({"events": 2}, {"minutes": 1}):
        stream = source(tmp_path, cut=cut)
        last = one_line(lambda: stream.events(1))  # noqa: B023
        assert last == one_line(lambda: stream.events(1))  # noqa: B023


def test_a_nested_column_does_not_shift_the_statistics(tmp_path: Path) -> None:
    events = [{"other": {"timestamp": 7, "x": 1}, **event} for event in rows(4)]
    path = write(tmp_path / "e.parquet", events)
    assert len(source(path, cut={"minutes": 2}).events(1).table) == 2


LINE = st.text('a1,"\r\t é\0', max_size=12)
SCALAR = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
)
ANY = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
)
FUZZ = settings(
    max_examples=examples(100),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def rows_or_error(path: Path) -> int | str:
    """How many rows are events or broken ones; or the error."""
    spec = FeatureSpec(SPEC.user, SPEC.ad, timestamp=None)
    try:
        chunks = all_events(source(path, spec, max_broken_share=1))
    except InputError as error:
        return str(error)
    return sum(len(chunk.table) + sum(chunk.set_aside.values()) for chunk in chunks)


@FUZZ
@given(st.lists(LINE, max_size=12))
def test_every_line_is_an_event_or_broken(tmp_path: Path, texts: list[str]) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(("age,ad,click\n" + "".join(f"{text},0\n" for text in texts)).encode())
    assert rows_or_error(path) == len(texts)


@FUZZ
@given(st.lists(ANY, max_size=6))
def test_any_json_is_an_event_or_broken_or_one_line(tmp_path: Path, values: list[Any]) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text("".join(json.dumps({"age": v, "ad": 1, "click": 0}) + "\n" for v in values))
    found = rows_or_error(path)
    assert found == len(values) or (isinstance(found, str) and "column 'age' must" in found)


def test_a_type_that_cannot_be_meant_names_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text('{"timestamp": 0, "click": 0, "age": ["a"], "ad": 1}\n')
    text = one_line(lambda: source(path).events(0))
    assert text.startswith(f"rows 1 to 1 of {path}: column 'age' must hold single values")
