"""Runs without Ray: resuming after values have expired, and a source that fails."""

import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrator.config.schema import RunConfig
from orchestrator.journal.run_folder import prepare
from orchestrator.loop import run as loop_run
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Events, Source
from orchestrator.storage.open import open_store
from support.configs import small
from trainer.features import FeatureSpec


def go(config: RunConfig, where: Path) -> None:
    store = open_store(str(where))
    run(config, store, prepare(store, config), [], LocalPool)


def test_deltas_with_expired_values_are_the_same_bytes_after_every_resume(tmp_path: Path) -> None:
    cycles, more = 12, ("search.instances=2", "source.events_per_cycle=60", "source.ads=1000")
    go(small(f"cycles={cycles}", *more), tmp_path / "once")
    for count in range(1, cycles + 1):
        go(small(f"cycles={count}", *more), tmp_path / "resumed")
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
            go(config, tmp_path)
    for arm in ("production", "entropic"):
        committed = sorted(path.stem for path in (tmp_path / "journal" / arm).glob("*.json"))
        assert committed == ["cycle-000000", "cycle-000001", "cycle-000002"]
    go(config, tmp_path)
    assert len(list((tmp_path / "journal" / "entropic").glob("*.json"))) == 5
