"""Runs without Ray: resuming after values have expired, and sources that fail or change."""

import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from divergence.errors import InputError
from orchestrator.journal.journal import read_record
from orchestrator.journal.record import encode
from orchestrator.loop import run as loop_run
from orchestrator.offline.replay import replay
from orchestrator.pool.protocol import Pool
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Events, Source
from orchestrator.storage.open import open_store
from support.configs import config, small
from support.event_files import rows, write
from support.runs import go_here, go_with
from trainer.features import FeatureSpec


def test_deltas_with_expired_values_are_the_same_bytes_after_every_resume(tmp_path: Path) -> None:
    cycles, more = 12, ("search.instances=2", "source.events_per_cycle=60", "source.ads=1000")
    go_here(small(f"cycles={cycles}", *more), tmp_path / "once")
    for count in range(1, cycles + 1):
        go_here(small(f"cycles={count}", *more), tmp_path / "resumed")
    once, resumed = model_files(tmp_path / "once"), model_files(tmp_path / "resumed")
    assert sum("delta" in name for name in once) >= cycles
    assert [name for name in once if once[name] != resumed.get(name)] == []
    assert once.keys() == resumed.keys()


def model_files(run: Path) -> dict[str, bytes]:
    files = (path for path in (run / "models").rglob("*") if path.is_file())
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


class FailsAt:
    """A source that raises at one cycle."""

    def __init__(self, source: Source, cycle: int) -> None:
        self.source, self.cycle, self.spec = source, cycle, source.spec

    def events(self, cycle: int) -> Events | None:
        if cycle == self.cycle:
            raise ZeroDivisionError("a bug in a reader")
        return self.source.events(cycle)


def test_whatever_a_source_raises_what_was_trained_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(config: Any, given: FeatureSpec | None, uri: str, stop: threading.Event) -> Source:
        return FailsAt(open_source(config, given, uri, stop), 3)

    config = small("cycles=5", "search.instances=2")
    with monkeypatch.context() as patch:
        patch.setattr(loop_run, "open_source", failing)
        with pytest.raises(ZeroDivisionError):
            go_here(config, tmp_path)
    for arm in ("production", "entropic"):
        committed = sorted(path.stem for path in (tmp_path / "journal" / arm).glob("*.json"))
        assert committed == ["cycle-000000", "cycle-000001", "cycle-000002"]
    go_here(config, tmp_path)
    assert len(list((tmp_path / "journal" / "entropic").glob("*.json"))) == 5


class Waits:
    """A source whose first events never come; whoever asks for them stops the run."""

    def __init__(self, source: Source, stop: threading.Event) -> None:
        self.stop, self.spec = stop, source.spec

    def events(self, cycle: int) -> Events | None:
        self.stop.set()
        threading.Event().wait()
        raise AssertionError("nobody sets that event")


def test_a_stop_while_the_first_events_are_read_starts_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waiting(config: Any, given: FeatureSpec | None, uri: str, stop: threading.Event) -> Source:
        return Waits(open_source(config, given, uri, stop), stop)

    def no_pool(job: object, rules: object) -> Pool:
        raise AssertionError("no pool is needed")

    monkeypatch.setattr(loop_run, "open_source", waiting)
    assert go_with(no_pool, small("cycles=5"), tmp_path, None, threading.Event()).stopped


FILES = """
source: {kind: files, path: DAYS, cut: {minutes: 10}, timestamp: {unit: s}}
features: {user: [age], ad: [ad]}
search: {instances: 2}
arms: [{name: a, rule: l2}]
"""


def test_no_event_is_lost_when_files_are_added_and_every_cycle_can_be_replayed(
    tmp_path: Path,
) -> None:
    days, where, events = tmp_path / "days", tmp_path / "run", rows(40)
    days.mkdir()
    over_days, store = config(FILES.replace("DAYS", str(days))), open_store(str(where))
    write(days / "1.csv", events[:25])
    go_here(over_days, where)
    write(days / "2.csv", events[25:])
    go_here(over_days, where)
    found = [read_record(store, "a", cycle).chunk for cycle in range(5)]
    assert [chunk.events for chunk in found] == [10, 10, 5, 5, 10]
    assert all(replay(store, "a", cycle, 1).same for cycle in (2, 3, 4))
    write(days / "1.csv", [{**row, "age": "99"} for row in events[:25]])
    with pytest.raises(InputError, match="cycle 2: the source no longer returns the events"):
        replay(store, "a", 2, 1)
    with pytest.raises(InputError, match=r"1\.csv was replaced after it was trained"):
        go_here(over_days, where)


def test_a_file_that_was_replaced_while_the_run_was_stopped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, where = write(tmp_path / "e.csv", rows(40)), tmp_path / "run"
    text = FILES.replace("DAYS", str(path))
    go_here(config(text, "cycles=2"), where)
    write(path, [{**row, "age": "99"} for row in rows(40)])  # the same counts
    for _ in range(2):
        with pytest.raises(InputError, match=r"cycle 1: the source no longer gives .*e\.csv\)"):
            go_here(config(text), where)
    old = where / "journal/a/cycle-000001.json"  # as the version before wrote it
    record = read_record(open_store(str(where)), "a", 1)
    chunk = replace(record.chunk, digest=None, events=7)
    old.write_bytes(encode(record.model_copy(update={"chunk": chunk})))
    for listing in (where / "listed").iterdir():
        listing.unlink()
    with caplog.at_level(logging.WARNING):
        go_here(config(text), where)
    assert "cycle 1 was trained with 7 events, and its source now gives 10" in caplog.text
