"""Mistakes in a mapping that would train on nonsense: they stop a run, with what to write."""

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divergence.errors import InputError
from orchestrator.sources.files import chunks
from orchestrator.sources.files.readers.lines import arrow_stream
from support.event_files import ads, rows, source, write
from trainer.features import Feature, FeatureSpec

FIRST_S = 1_704_067_200
BY_TIME = {"minutes": 10}


def relabelled(path: Path, names: list[str], column: str = "clicked") -> Path:
    events = [
        {"timestamp": e["timestamp"], column: name, "age": e["age"], "ad": e["ad"]}
        for e, name in zip(rows(len(names)), names, strict=True)
    ]
    text = ",".join(events[0]) + "\n"
    path.write_text(text + "".join(",".join(map(str, e.values())) + "\n" for e in events))
    return path


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("unit", "where", "right"),
    [("ms", "in 1970", "s"), ("ns", "in 1970", "s")],
)
def test_a_wrong_unit_is_said_and_the_right_one(
    tmp_path: Path, suffix: str, unit: str, where: str, right: str
) -> None:
    path = write(tmp_path / f"e.{suffix}", rows(30))
    stream = source(path, timestamp={"unit": unit}, cut=BY_TIME)
    text = rf"e\.{suffix}: with source\.timestamp\.unit {unit}, all times are {where}: "
    with pytest.raises(InputError, match=f"{text}write unit: {right}$"):
        stream.events(0)


def test_milliseconds_that_are_read_as_seconds(tmp_path: Path) -> None:
    late = [{**row, "timestamp": row["timestamp"] * 1000} for row in rows(30)]
    with pytest.raises(InputError, match=r"unit s, all times are after 2100: write unit: ms$"):
        source(write(tmp_path / "e.csv", late)).events(0)


@pytest.mark.parametrize("cut", [{"events": 10}, BY_TIME])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_iso_texts_that_are_read_as_numbers(tmp_path: Path, suffix: str, cut: Any) -> None:
    texts = [{**row, "timestamp": f"2025-03-01T00:{i:02d}:00Z"} for i, row in enumerate(rows(30))]
    with pytest.raises(InputError) as refused:
        source(write(tmp_path / f"e.{suffix}", texts), cut=cut).events(0)
    assert str(refused.value) == (
        f"{tmp_path}/e.{suffix}: times like '2025-03-01T00:00:00Z' are ISO texts: remove "
        "source.timestamp.unit, which is 's'"
    )


def test_a_file_that_was_written_in_the_wrong_unit(tmp_path: Path) -> None:
    times = pa.array([FIRST_S + 60 * i for i in range(30)], pa.timestamp("ns"))
    table = pa.Table.from_pylist(rows(30)).set_column(0, "timestamp", times)
    pq.write_table(table, tmp_path / "e.parquet")
    with pytest.raises(InputError, match="all times are in 1970: they were probably written in"):
        source(tmp_path / "e.parquet", timestamp={}, cut=BY_TIME).events(0)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_times_that_count_from_zero_are_times(tmp_path: Path, unit: str) -> None:
    counted = [{**row, "timestamp": 60_000 * i} for i, row in enumerate(rows(30))]
    assert source(write(tmp_path / "e.csv", counted), timestamp={"unit": unit}).events(0)


SPEC = FeatureSpec(user=(Feature("age"),), ad=(Feature("ad"),), label="clicked")
YES_NO = ["no", "yes", "no"] * 10


def first_cycle(path: Path, **more: Any) -> Any:
    return source(path, SPEC, **more).events(0)


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (YES_NO, r"holds 'no', 'yes': write source\.click: clicked == yes$"),
        (["1", "2", "3", "4", "5"] * 6, r"holds 1, 2, 3, 4, 5: write source\.click: clicked >= 4$"),
        (["shown", "hit"] * 15, r"holds 'hit', 'shown': write source\.click: clicked == "),
        (["-1", "1"] * 15, r"holds -1, 1: write source\.click: clicked >= 1$"),
    ],
)
def test_a_label_of_other_values_says_what_to_write(
    tmp_path: Path, values: list[str], remedy: str
) -> None:
    with pytest.raises(InputError, match=rf"e\.csv: label clicked {remedy}"):
        first_cycle(relabelled(tmp_path / "e.csv", values))


def test_what_the_remedy_says_works(tmp_path: Path) -> None:
    events = first_cycle(relabelled(tmp_path / "e.csv", YES_NO), click="clicked == yes")
    assert events.table.column("clicked").to_pylist() == [0, 1, 0] * 3 + [0]


@pytest.mark.parametrize("wanted", ["YES", "'Yes'", "yess"])
def test_a_click_rule_that_nearly_matches_stops_the_run(tmp_path: Path, wanted: str) -> None:
    path = relabelled(tmp_path / "e.csv", YES_NO)
    text = r"no event is a click: clicked holds 'no', 'yes' \(did you mean clicked == yes\?\)"
    with pytest.raises(InputError, match=text):
        first_cycle(path, click=f"clicked == {wanted}")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (YES_NO, r"'no', 'yes', not numbers \(did you mean clicked == yes\?\)$"),
        (["shown", "hit"] * 15, "'hit', 'shown', not numbers$"),
        (["no", "1", "no"] * 10, "1, 'no', not numbers$"),
    ],
)
def test_a_click_rule_that_compares_texts_with_a_number(
    tmp_path: Path, values: list[str], told: str
) -> None:
    path = relabelled(tmp_path / "e.csv", values)
    with pytest.raises(
        InputError, match=rf"e\.csv: source.click 'clicked == 1': clicked holds {told}"
    ):
        first_cycle(path, click="clicked == 1")


def test_a_click_rule_that_divides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = relabelled(tmp_path / "e.csv", ["1", "2"] * 15)
    assert len(ads(first_cycle(path, click="clicked >= 4"))) == 10  # too few to be sure
    assert "no event is a click: clicked holds 1, 2" in caplog.text
    monkeypatch.setattr(chunks, "ENOUGH", 10)
    with pytest.raises(InputError, match="every event is a click: clicked holds 1, 2"):
        first_cycle(path, click="clicked != 3")


def test_all_mistakes_are_shown_at_once(tmp_path: Path) -> None:
    """Columns that are missing, a rule of no feature, the unit, the label and the bins."""
    path = relabelled(tmp_path / "e.csv", YES_NO)
    path.write_text(path.read_text().replace(",age,", ",agee,"))
    with pytest.raises(InputError) as refused:
        first_cycle(
            path, timestamp={"unit": "ms"}, cut=BY_TIME, click="clicked == 1",
            columns={"ad": {"bins": [1, 2]}, "geo": {"round": 5}},
        )  # fmt: skip
    assert str(refused.value).splitlines() == [
        "source.columns.geo does not belong to a feature; the features are age, ad",
        f"{path}: no column 'age'; did you mean 'agee'?",
        f"{path}: with source.timestamp.unit ms, all times are in 1970: write unit: s",
        f"{path}: source.click 'clicked == 1': clicked holds 'no', 'yes', not numbers (did you "
        "mean clicked == yes?)",
        f"{path}: source.columns.ad.bins needs numbers, but ad holds 'ad0', 'ad1', "
        "'ad2', 'ad3', 'ad4', …",
    ]


def test_a_label_of_lists_is_one_mistake_among_others(tmp_path: Path) -> None:
    events = [{**row, "click": [1, 2]} for row in rows(10)]
    path = write(tmp_path / "e.jsonl", events)
    with pytest.raises(InputError) as refused:
        first_cycle(path, click="click == yes", columns={"geo": {"round": 5}})
    assert str(refused.value).splitlines() == [
        "source.columns.geo does not belong to a feature; the features are age, ad",
        f"{path}: Unsupported cast from list<item: int64> to utf8 using function cast_string",
    ]


def test_a_mistake_does_not_abort_the_process_at_its_end() -> None:
    """Arrow's threads drop parsed bytes when they like: Python's would need an interpreter."""
    data = b"a,b\n" * 1000
    before = sys.getrefcount(data)
    stream = arrow_stream(data)
    assert sys.getrefcount(data) == before
    assert stream.read() == data
