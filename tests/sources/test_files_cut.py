"""Cutting files into cycles: nothing lost, nothing twice, any cycle in any order."""

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from divergence.errors import InputError
from orchestrator.sources.files import decoder
from orchestrator.sources.files.readers import lines, parquet_reader
from support.event_files import SPEC, ads, all_events, rows, source, write
from support.strategies import examples
from trainer.chunk import Chunk, compile_chunk
from trainer.features import FeatureSpec

FORMATS = ("parquet", "csv", "jsonl")
A_FEW = settings(
    max_examples=examples(25),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    monkeypatch.setattr(parquet_reader, "BLOCK_ROWS", 10)


@pytest.mark.parametrize("suffix", FORMATS)
def test_cut_by_count_in_order_of_name_and_line(tmp_path: Path, suffix: str) -> None:
    events = rows(25)
    write(tmp_path / f"b.{suffix}", events[12:])
    write(tmp_path / f"a.{suffix}", events[:12])
    chunks = all_events(source(tmp_path))
    assert [len(chunk.table) for chunk in chunks] == [10, 10, 5]
    assert [ad for chunk in chunks for ad in ads(chunk)] == [e["ad"] for e in events]
    assert chunks[0].table.column_names == ["click", "timestamp", "age", "ad"]


RULES: list[dict[str, Any]] = [
    {},
    {"columns": {"ad": {"slice": [0, 3]}, "age": {"bins": [21, 30]}}, "missing": ["ad2"]},
]


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("age", [str, int])
def test_the_same_rows_give_the_same_bits_in_every_format(
    tmp_path: Path, age: type, rules: dict[str, Any]
) -> None:
    """Parquet has dictionaries, and its blocks other ends: neither shows in a compiled chunk."""
    order = np.random.default_rng(101).integers(0, 12, 200)
    events = [
        {**event, "ad": f"ad{n}", "age": age(20 + n // 2)}
        for n, event in zip(order.tolist(), rows(200), strict=True)
    ]
    found = []
    for suffix in FORMATS:
        chunks = all_events(source(write(tmp_path / f"e.{suffix}", events), **rules))
        assert len(chunks) == 20
        found.append([_bits(compile_chunk(chunk.table, SPEC)) for chunk in chunks])
    assert found[0] == found[1] == found[2]


def _bits(chunk: Chunk) -> list[list[Any]]:
    arrays = (chunk.click, *chunk.users, *chunk.ads, chunk.user_keys.count, chunk.ad_keys.count)
    return [array.tolist() for array in arrays] + [chunk.user_keys.values, chunk.ad_keys.values]


@pytest.mark.parametrize("suffix", FORMATS)
def test_cut_by_time_puts_events_where_their_time_is(tmp_path: Path, suffix: str) -> None:
    events = rows(30)
    write(tmp_path / f"a.{suffix}", events[1::2])
    write(tmp_path / f"b.{suffix}", events[0::2][::-1])
    chunks = all_events(source(tmp_path, cut={"minutes": 10}))
    assert [ads(chunk) for chunk in chunks] == [
        [e["ad"] for e in events[i : i + 10]] for i in (0, 10, 20)
    ]


def test_a_quiet_cycle_is_empty_and_the_stream_goes_on(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", rows(2) + rows(2, first_s=3600))
    chunks = all_events(source(path, cut={"minutes": 15}))
    assert [len(chunk.table) for chunk in chunks] == [2, 0, 0, 0, 2]
    assert chunks[1].table.schema.names == chunks[0].table.schema.names


def test_a_start_leaves_earlier_events_out(tmp_path: Path) -> None:
    path = write(tmp_path / "e.jsonl", rows(20))
    start = datetime(2024, 1, 1, 0, 5, tzinfo=UTC)
    first = source(path, cut={"minutes": 10, "start": start}).events(0)
    assert ads(first) == [f"ad{i}" for i in range(5, 15)]
    assert "2024-01-01T00:05:00+00:00 to 2024-01-01T00:15:00+00:00" in first.origin


def test_gzip_is_read_like_the_plain_file(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.csv", rows(40))
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    ours, theirs = source(packed), source(plain)
    for cycle in (3, 0, 2, 1, 4):
        ours_now, theirs_now = ours.events(cycle), theirs.events(cycle)
        assert (ours_now and ours_now.table) == (theirs_now and theirs_now.table)


def test_several_paths_and_globs(tmp_path: Path) -> None:
    for name, events in (("a1.csv", rows(3)), ("a2.csv", rows(6)[3:]), ("z.csv", rows(7)[6:])):
        write(tmp_path / name, events)
    stream = source([f"{tmp_path}/a*.csv", f"{tmp_path}/z.csv", f"{tmp_path}/a1.csv"])
    assert ads(stream.events(0)) == [f"ad{i}" for i in range(7)]


@A_FEW
@given(
    sizes=st.lists(st.integers(0, 23), min_size=1, max_size=4),
    per_cycle=st.integers(1, 17),
    suffix=st.sampled_from(FORMATS),
)
def test_no_row_is_lost_or_doubled_by_count(
    tmp_path: Path, sizes: list[int], per_cycle: int, suffix: str
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    events, at = rows(sum(sizes) or 1), 0
    sizes = sizes if sum(sizes) else [1]
    for number, size in enumerate(sizes):
        if size:
            write(tmp_path / f"{number}.{suffix}", events[at : at + size])
        at += size
    chunks = all_events(source(tmp_path, cut={"events": per_cycle}))
    assert [ad for chunk in chunks for ad in ads(chunk)] == [e["ad"] for e in events]
    assert all(len(chunk.table) == per_cycle for chunk in chunks[:-1])


@A_FEW
@given(
    order=st.permutations(range(30)),
    minutes=st.integers(1, 40),
    visits=st.permutations(range(5)),
    suffix=st.sampled_from(FORMATS),
)
def test_random_access_equals_sequential_by_time(
    tmp_path: Path, order: list[int], minutes: int, visits: list[int], suffix: str
) -> None:
    events = rows(30)
    path = write(tmp_path / f"e.{suffix}", [events[i] for i in order])
    chunks = all_events(source(path, cut={"minutes": minutes}))
    assert [ad for chunk in chunks for ad in ads(chunk)] == [e["ad"] for e in events]
    again = source(path, cut={"minutes": minutes})
    for cycle in visits:
        found = again.events(cycle)
        assert (found and found.table) == (chunks[cycle].table if cycle < len(chunks) else None)


def test_equal_times_keep_the_order_of_the_files(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", rows(5, step_s=0))
    write(tmp_path / "b.csv", rows(9, step_s=0)[5:])
    assert ads(source(tmp_path, cut={"minutes": 1}).events(0)) == [f"ad{i}" for i in range(9)]


def test_memory_follows_a_block_not_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "CACHE_BYTES", 1)
    stream = source(write(tmp_path / "e.csv", rows(200)), cut={"events": 3})
    for cycle in range(66):
        stream.events(cycle)
        assert len(stream._decoder._decoded) == 1


def test_far_from_time_order_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "e.csv", [rows(200)[i * 77 % 200] for i in range(200)])
    all_events(source(tmp_path / "e.csv", cut={"minutes": 100}))
    assert len(caplog.messages) == 1
    assert "not sorted by time" in caplog.messages[0]


def test_more_cycles_than_can_be_meant(tmp_path: Path) -> None:
    path = write(tmp_path / "e.csv", rows(1) + rows(1, first_s=10**9))
    with pytest.raises(InputError, match="make more than 1000000 cycles of 1 minutes"):
        source(path, cut={"minutes": 1}).events(0)


def test_time_cut_needs_a_timestamp(tmp_path: Path) -> None:
    spec = FeatureSpec(SPEC.user, SPEC.ad, timestamp=None)
    path = write(tmp_path / "e.csv", rows(3))
    with pytest.raises(InputError, match=r"needs features\.timestamp"):
        source(path, spec, cut={"minutes": 1})
    assert ads(source(path, spec).events(0)) == ["ad0", "ad1", "ad2"]
