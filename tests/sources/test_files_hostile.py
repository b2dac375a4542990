"""Files that no honest program writes, and some that one does: never a traceback or a crash."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from divergence.errors import InputError
from orchestrator.sources.files.files import File, find_files
from orchestrator.sources.files.readers import lines
from orchestrator.sources.files.readers.jsonl_reader import MAX_DEPTH
from orchestrator.sources.files.readers.parquet_process import CHILD, IsolatedParquet
from orchestrator.sources.protocol import Source
from support.event_files import SPEC, ads, all_events, csv_text, jsonl_text, rows, source, write
from trainer.chunk import compile_chunk
from trainer.features import Feature, FeatureSpec

CUTS: list[dict[str, int]] = [{"events": 100}, {"minutes": 600}]
START = b'{"timestamp": 1704067200, "click": 1, "age": "20", "ad": '
LISTS = FeatureSpec(user=(Feature("age"),), ad=(Feature("ad", multi=True),))
INT64 = (-(2**63), 2**63 - 1)


def table(**columns: Any) -> pa.Table:
    """Four good events, with these columns instead of theirs."""
    good = {
        "timestamp": [1_704_067_200 + second for second in range(4)],
        "click": [0, 1, 0, 1],
        "age": ["20", "21", "22", "23"],
        "ad": ["a", "b", "c", "d"],
    }
    return pa.table(good | columns)


def set_aside(path: Path, cut: dict[str, int], spec: FeatureSpec = SPEC, **more: Any) -> Any:
    """How many rows of a file of one chunk are good, and what the others suffer from."""
    place = str(path.parent)
    (events,) = all_events(source(path, spec, place, cut=cut, max_broken_share=1, **more))
    compile_chunk(events.table, spec)
    if events.set_aside:
        json.loads((path.parent / "quarantine/cycle-000000.jsonl").read_text().splitlines()[0])
    return len(events.table), dict(events.set_aside)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (START + b'"\xff"}', "not UTF-8 text"),
        (START + b'1, "\xff": 2}', "not UTF-8 text"),
        (START + b'"\\ud800"}', "not UTF-8 text"),
        (START + b'{"\\uDC00": 1}}', "not UTF-8 text"),
        (START + b'"\xed\xa0\x80"}', "not UTF-8 text"),
        (START + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (START + b'1, "x": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "nested too deeply"),
        (b"[" * 100_000, "nested too deeply"),
        (START + b"1" * 5000 + b"}", "not a JSON object"),
        (START + b'"\0"}', "not a JSON object"),
    ],
)
def test_a_bad_json_line_is_set_aside(
    tmp_path: Path, line: bytes, reason: str, first: bool, cut: dict[str, int]
) -> None:
    good = jsonl_text(rows(3)).encode()
    path = tmp_path / "e.jsonl"
    path.write_bytes(line + b"\n" + good if first else good + line + b"\n")
    assert set_aside(path, cut) == (3, {reason: 1})


@pytest.mark.parametrize("cut", CUTS)
def test_a_file_of_bad_json_lines_alone(tmp_path: Path, cut: dict[str, int]) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"[" * 100_000 + b"\n\xff\n")
    (events,) = all_events(source(path, cut=cut, max_broken_share=1))
    assert events.set_aside == {"nested too deeply": 1, "not UTF-8 text": 1}


def test_brackets_in_texts_and_long_lists_are_not_deep(tmp_path: Path) -> None:
    events = rows(3)
    events[1]["ad"] = "[{" * MAX_DEPTH + '\\"'
    events[2]["other"] = [{"x": [1]}] * MAX_DEPTH
    path = tmp_path / "e.jsonl"
    path.write_text(jsonl_text(events))
    assert ads(source(path).events(0)) == [event["ad"] for event in events]


def test_a_pair_of_surrogates_is_a_character(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_bytes(START + b'"\\ud83d\\ude00"}\n' + START + b'"\xff"}\n')
    assert ads(source(path, max_broken_share=1).events(0)) == ["\U0001f600"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_line_without_end_is_not_read(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1 << 20)
    path = write(tmp_path / f"e.{suffix}", rows(3))
    path.write_bytes(path.read_bytes() + b"x" * (2 << 20))
    with pytest.raises(InputError, match=f"{path} has a line of more than 1 MB: are its rows"):
        all_events(source(path))


def test_a_long_csv_line_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(csv_text(rows(1)) + "1704067200,1,20," + "x" * (3 << 20) + "\n1,2\n")
    assert set_aside(path, CUTS[0]) == (2, {"wrong number of fields": 1})


def test_utf_16_and_a_header_of_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(csv_text(rows(3)), "utf-16")
    with pytest.raises(InputError, match=f"{path} is not UTF-8 text: convert it"):
        source(path).events(0)
    path.write_text("," * 200_000 + "\n")
    with pytest.raises(InputError, match=f"{path} has more than one column ''"):
        source(path).events(0)
    path.write_text(",".join(["x" * 1000, "a\x1bb"]) + "\n")
    with pytest.raises(InputError, match=r"it has x{39}…, 'a\\x1bb'\. For the label"):
        source(path).events(0)


@pytest.mark.parametrize("multi", [False, True])
def test_hashed_ids_are_the_same_values_as_in_csv(tmp_path: Path, multi: bool) -> None:
    ids = [5, 2**63, 2**64 - 1, 2**63 - 1]
    column = pa.array(ids, pa.uint64())
    if multi:
        column = pa.array([[i] for i in ids], pa.list_(pa.uint64()))
    pq.write_table(table(ad=column), tmp_path / "e.parquet", row_group_size=1)
    events = source(tmp_path / "e.parquet", LISTS if multi else SPEC).events(0)
    assert events is not None
    chunk = compile_chunk(events.table, LISTS if multi else SPEC)
    assert [value for _, value in chunk.ad_keys.pairs] == [str(i) for i in ids]


BAD = [b"a", b"\xff", None, b"\xc3\xa9"]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(
    "column",
    [
        pa.array(BAD),
        pa.array(BAD, pa.large_binary()),
        pa.array(BAD).view(pa.string()),
        pa.array([b"aa", b"\xff\xff", None, b"\xc3\xa9"], pa.binary(2)),
        pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 2], pa.int32()), pa.array([b"a", b"\xff", b"c"]).view(pa.string())
        ),
    ],
)
def test_a_text_that_is_not_utf_8_is_set_aside(
    tmp_path: Path, column: pa.Array, cut: dict[str, int]
) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(table(age=column), path)
    assert set_aside(path, cut) == (3, {"age is not UTF-8 text": 1})


def test_lists_of_texts_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(table(ad=pa.array([[b"a"], [b"b", b"\xff"], None, [b"c"]])), path)
    assert set_aside(path, CUTS[0], LISTS) == (3, {"ad is not UTF-8 text": 1})


@pytest.mark.parametrize("cut", CUTS)
def test_bytes_that_are_text_are_values(tmp_path: Path, cut: dict[str, int]) -> None:
    pq.write_table(table(ad=pa.array([b"a", b"b", b"c", b"\xc3\xa9"])), tmp_path / "e.parquet")
    (events,) = all_events(source(tmp_path / "e.parquet", cut=cut))
    assert ads(events) == ["a", "b", "c", "é"]


def test_a_column_twice(tmp_path: Path) -> None:
    good, path = table(), tmp_path / "e.parquet"
    pq.write_table(good.append_column("age", good.column("ad")), path)
    with pytest.raises(InputError, match=f"{path}: more than one column 'age'"):
        source(path).events(0)
    good = table(click=[0, 1, 0, 7]).append_column("other", good.column("ad"))
    pq.write_table(good.append_column("other", good.column("ad")), path)
    assert set_aside(path, CUTS[0]) == (3, {"click is not 0 or 1": 1})


DAY_MS = 86_400_000
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EDGES = [
    *((pa.timestamp(unit, zone), unit) for unit in ("ms", "us", "ns") for zone in (None, "UTC")),
    (pa.date64(), "ms"),
    (pa.int64(), "s"),
    (pa.uint64(), "s"),
]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("kind", "unit"), EDGES)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_times_at_the_edge_of_their_type_are_set_aside(
    tmp_path: Path, kind: pa.DataType, unit: str, zone: str, cut: dict[str, int]
) -> None:
    now = 1_704_067_200 * PER_SECOND[unit]
    ticks = [int(edge / DAY_MS) * DAY_MS if kind == pa.date64() else edge for edge in INT64]
    path = tmp_path / "e.parquet"
    pq.write_table(table(timestamp=pa.array([now, *ticks, now], pa.int64()).view(kind)), path)
    rule = {"unit": unit} if pa.types.is_integer(kind) else {"timezone": zone}
    found = set_aside(path, cut, timestamp=rule)
    assert found == (2, {"timestamp is not between 1970 and 2100": 2})


ABORTS = Path(__file__).parent / "assets/aborts_pyarrow_26.parquet"
"""Its size statistics do not fit: pyarrow 26 aborts the process that asks for a column's."""


def test_a_file_on_which_pyarrow_aborts_is_one_line() -> None:
    spec = FeatureSpec(user=(Feature("age"),), ad=(Feature("ad"),))
    for cut in CUTS:
        text = refusal(source(ABORTS, spec, cut=cut, timestamp={}))
        assert text is None or text.startswith(f"{ABORTS} ")


def test_names_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(table(ad=[{"unusual": 1}] * 4), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"unusual", b"unu\xffual"))
    with pytest.raises(InputError, match=f"{path} is not readable Parquet: 'utf-8' codec"):
        source(path).events(0)


class Aborting(LocalFileSystem):
    """Opening a file ends the process."""

    def _open(self, path: str, mode: str = "rb", **more: Any) -> Any:
        os.abort()


def test_a_crash_names_the_file_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "e.parquet", rows(3))
    file = File(Aborting(), str(path), "x.parquet", path.stat().st_size)
    with pytest.raises(InputError) as error:
        IsolatedParquet(file).columns()
    assert str(error.value) == (
        "x.parquet is not readable Parquet: pyarrow crashes on it (SIGABRT); "
        "it is probably damaged: write it again"
    )
    assert ads(source(path).events(0)) == ["ad0", "ad1", "ad2"]


def test_a_killed_child_is_started_again(tmp_path: Path) -> None:
    reader = IsolatedParquet(*find_files(str(write(tmp_path / "e.parquet", rows(3))), {}))
    assert len(reader.columns()) == 4
    assert CHILD._running is not None
    CHILD._running[0].kill()
    assert len(list(reader.blocks())) == 1


def test_a_file_with_none_of_the_columns_has_its_rows(tmp_path: Path) -> None:
    (file,) = find_files(str(write(tmp_path / "e.parquet", rows(3))), {})
    reader = IsolatedParquet(file)
    assert len(reader.read(next(reader.blocks()), []).table) == 3


def test_a_changed_file_is_read_anew(tmp_path: Path) -> None:
    for name in ("ad0", "xyz"):
        path = write(tmp_path / "e.parquet", [{**rows(1)[0], "ad": name}])
        assert ads(source(path).events(0)) == [name]


def test_flipped_bits_are_one_line(tmp_path: Path) -> None:
    path = write(tmp_path / "e.parquet", rows(30))
    whole, outcomes = path.read_bytes(), set()
    for number in range(0, len(whole), 37):
        flipped = bytearray(whole)
        flipped[number] ^= 1 << (number % 8)
        path.write_bytes(flipped)
        text = refusal(source(path, cut=CUTS[number % 2], max_broken_share=1))
        assert "\n" not in (text or "")
        outcomes.add(text is None)
    assert outcomes == {True, False}


def refusal(stream: Source) -> str | None:
    """Why a stream cannot be read; None if it can."""
    try:
        all_events(stream)
    except InputError as error:
        return str(error)
    return None
