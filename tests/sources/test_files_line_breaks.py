"""CSV files with line breaks inside quotes are read like any other."""

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.sources.files.readers import lines
from support.event_files import ads, all_events, source
from support.event_files import rows as events
from support.strategies import examples

HEADER = "timestamp,click,age,ad\n"


def text_of(ad_names: list[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    for row, ad in zip(events(len(ad_names)), ad_names, strict=True):
        writer.writerow([row["timestamp"], row["click"], row["age"], ad])
    return HEADER + file.getvalue()


@pytest.mark.parametrize("block_bytes", [50, 100, 8 << 20])
def test_a_row_may_have_several_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    names = ["plain", "two\nlines", "a\n\nblank one", 'quo"te\n"s', "x" * 300 + "\n" + "y" * 300]
    names = names * 3 + ['the\nlast, "one"']
    path = tmp_path / "e.csv"
    path.write_text(text_of(names))
    chunks = all_events(source(path, cut={"events": 4}))
    assert [ad for chunk in chunks for ad in ads(chunk)] == names
    assert [chunk.set_aside for chunk in chunks] == [{}] * 4


@settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    names=st.lists(st.text('ab,"\n', min_size=1, max_size=6), min_size=1, max_size=12),
    block_bytes=st.integers(30, 200),
)
def test_any_text_is_read_as_it_was_written(
    tmp_path: Path, names: list[str], block_bytes: int
) -> None:
    path = tmp_path / "e.csv"
    path.write_text(text_of(names))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block_bytes)
        chunks = all_events(source(path))
    assert [ad for chunk in chunks for ad in ads(chunk)] == names


def test_a_quote_that_is_not_closed_breaks_its_own_line_only(tmp_path: Path) -> None:
    first, *others = text_of(["a", "two\nlines", "c", "d"]).splitlines(keepends=True)
    path = tmp_path / "e.csv"
    path.write_text(first + '1704067200,0,20,"open\n' + "".join(others))
    (chunk,) = all_events(source(path, place=str(tmp_path / "run"), max_broken_share=0.5))
    assert ads(chunk) == ["a", "two\nlines", "c", "d"]
    assert chunk.set_aside == {"broken quotes": 1}
    kept = (tmp_path / "run/quarantine/cycle-000000.jsonl").read_text()
    assert '"line": 2' in kept
