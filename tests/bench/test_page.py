"""What benchmarks share: a busy machine and a missed bar are named, on the page too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.bench import page
from scripts.bench.page import Load, load_now, load_sentence, reaches, reported


def test_a_busy_machine_is_named() -> None:
    quiet, busy = Load(0.02, 0.1), Load(0.5, 1.4)
    assert load_sentence(quiet, quiet).startswith("The machine was quiet: before 2% of the cores")
    for before, after in ((quiet, busy), (busy, quiet)):
        sentence = load_sentence(before, after)
        assert sentence.startswith("**The machine was not quiet**")
        assert "50% of the cores busy, load average 1.4" in sentence


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="only Linux tells")
def test_other_work_is_seen() -> None:
    """A process that computes keeps a core busy, or what it gets of one."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            assert load_now(0.5).busy > 0.4 / (os.cpu_count() or 1)
        finally:
            other.kill()


def miss_a_bar() -> None:
    with reported("some", readme=True) as missed:
        print("| a table |")
        missed.append("a bar is 0.9, not 1.0")


def test_a_missed_bar_is_on_the_page_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Speed\n<!-- some: begin -->\nold\n<!-- some: end -->\nafter\n")
    monkeypatch.setattr(page, "BENCH", str(path))
    monkeypatch.setattr(page, "LOOK_S", 0.01)
    with pytest.raises(SystemExit) as stopped:
        miss_a_bar()
    assert stopped.value.code == 1
    text, shown = path.read_text(), capsys.readouterr().out
    assert text.startswith("# Speed\n")
    assert text.endswith("<!-- some: end -->\nafter\n")
    for part in ("| a table |", "machine was", "**MISSED**: a bar is 0.9, not 1.0"):
        assert part in text
        assert part in shown
    assert "old" not in text


@pytest.mark.parametrize("error", [ValueError("no\nserver"), SystemExit("no server")])
def test_a_failed_benchmark_is_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "page.md"
    path.write_text("<!-- some: begin -->\nold\n<!-- some: end -->\n")
    monkeypatch.setattr(page, "BENCH", str(path))
    monkeypatch.setattr(page, "LOOK_S", 0.01)
    with pytest.raises(type(error)), reported("some", readme=True):
        raise error
    text = path.read_text()
    assert f"**FAILED**: {type(error).__name__}: no server" in text
    assert "machine was" in text
    assert "old" not in text


def test_without_a_miss_nothing_fails_and_the_page_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "BENCH", str(tmp_path / "no page"))
    with reported("some", readme=False) as missed:
        assert missed == []


@pytest.mark.parametrize(
    ("measured", "wanted", "expected"),
    [
        ("0.967 (0.963 to 0.970)", ">= 0.95", True),
        ("0.94 (0.93 to 0.96)", ">= 0.95", False),
        ("1.06 (1.05 to 1.07)", "<= 1.10", True),
        ("1.2", "<= 1.10", False),
    ],
)
def test_bars_of_the_loop(measured: str, wanted: str, expected: bool) -> None:
    assert reaches(measured, wanted) == expected
