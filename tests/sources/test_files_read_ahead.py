"""Fast ways of reading files give what the slow ones do."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergence.errors import InputError
from orchestrator.sources.files.files import find_files
from orchestrator.sources.files.readers import lines
from orchestrator.sources.files.readers.ahead import AheadReader
from orchestrator.sources.files.readers.csv_reader import CsvReader
from orchestrator.sources.files.readers.parquet_reader import ParquetReader
from orchestrator.sources.files.readers.records import _odd_before
from orchestrator.sources.files.reading import Csv
from orchestrator.sources.files.rows import Block, Rows
from orchestrator.storage.background import BackgroundThread
from support.strategies import examples


class Watched(CsvReader):
    """Notes what is read, and finds no block after the second where it is told so."""

    def __init__(self, path: Path, *, breaks: bool = False) -> None:
        super().__init__(next(iter(find_files(str(path), {}))), Csv())
        self.done: list[int] = []
        self._breaks = breaks

    def blocks(self) -> Iterator[Block]:
        for number, block in enumerate(super().blocks()):
            if self._breaks and number == 2:
                raise InputError("the third block cannot be found")
            yield block

    def read(self, block: Block, columns: list[str]) -> Rows:  # type: ignore[override]
        self.done.append(block.start)
        return super().read(block, columns)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    made = tmp_path / "e.csv"
    made.write_text("a,b\n" + "".join(f"{i},x{i}\n" for i in range(100)))
    return made


@pytest.fixture
def thread() -> Iterator[BackgroundThread]:
    made = BackgroundThread("test")
    yield made
    made.stop(5.0)


def test_rows_of_a_block_are_there_while_the_next_is_read_ahead(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken row costs no second pass over a compressed file."""
    reader = Watched(path)
    first, second, third, *_ = reader.blocks()
    seeks: list[int] = []
    read = lines.TextFile._bytes

    def noted(self: lines.TextFile, start: int, size: int | None) -> bytes:
        seeks.append(start)
        return read(self, start, size)

    monkeypatch.setattr(lines.TextFile, "_bytes", noted)
    for block, following in ((first, second), (second, third)):
        reader.read(block, ["a"])
        reader.read(following, ["a"])
        assert reader.raw(block, [0])[0][1].startswith(str(block.first - 2))
    assert seeks == sorted(set(seeks))


def test_every_block_is_read_once_and_in_any_order(path: Path, thread: BackgroundThread) -> None:
    inner = Watched(path)
    reader = AheadReader(inner, thread)
    read = [(block, reader.read(block, ["b"]).table) for block in reader.blocks()]
    assert len(read) > 5
    assert pa.concat_tables([t for _, t in read])["b"].to_pylist() == [f"x{i}" for i in range(100)]
    assert inner.done == [block.start for block, _ in read]
    for block, table in reversed(read):
        assert reader.read(block, ["b"]).table.equals(table)
    assert [b for b, _ in read] == list(reader.blocks()) == list(CsvReader.blocks(inner))


def test_who_does_not_read_has_nothing_read_ahead(path: Path, thread: BackgroundThread) -> None:
    inner = Watched(path)
    assert list(AheadReader(inner, thread).blocks())
    assert inner.done == []


def test_an_error_ahead_is_raised_where_its_block_is_asked_for(
    path: Path, thread: BackgroundThread
) -> None:
    reader = AheadReader(Watched(path, breaks=True), thread)
    blocks = reader.blocks()
    first, second = next(blocks), next(blocks)
    for block in (first, second, first, second):
        assert len(reader.read(block, ["a"]).table)
    for _ in range(2):
        with pytest.raises(InputError, match="third block"):
            list(reader.blocks())


@settings(max_examples=examples(50), deadline=None)
@given(st.text('"a\n', max_size=300))
def test_parities_are_those_of_counting(text: str) -> None:
    places = np.arange(len(text) + 1)
    counted = [text[:place].count('"') % 2 for place in places]
    assert _odd_before(text.encode(), '"', places).tolist() == counted


def test_texts_read_as_dictionaries_are_the_same(tmp_path: Path) -> None:
    random, rows = np.random.default_rng(101), 200_000
    table = pa.table(
        {
            "few": pa.array(np.array(["x", "y", "", None], object)[random.integers(0, 4, rows)]),
            "many": [f"id{i}" for i in range(rows)],
            "number": random.integers(0, 9, rows),
            "bytes": pa.array([b"z"] * rows),  # read as texts, too
        }
    )
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=40_000)
    reader = ParquetReader(*find_files(str(tmp_path / "e.parquet"), {}))
    kinds = []
    for block in reader.blocks():
        fast, slow = reader.read(block, table.column_names), reader._read_plain(block, ["few"])
        kinds.append([pa.types.is_dictionary(kind) for kind in fast.table.schema.types[:2]])
        at = slice(block.first - 1, block.first - 1 + block.rows)
        for name in table.column_names:
            written = table[name].cast(pa.string()) if name == "bytes" else table[name]
            assert fast.table[name].to_pylist() == written.to_pylist()[at], name
        assert slow.table["few"].to_pylist() == fast.table["few"].to_pylist()
    assert kinds[0] == [True, True]
    assert kinds[-1] == [True, False]  # a dictionary of all texts does not pay
