"""What is trained is committed, whatever ends a run. No Ray is needed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from orchestrator.journal.journal import cycles_of
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.committer import Listener
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.pool.progress import ArmProgress
from support.small_run import SmallRun


def raising(cycle: int) -> Listener:
    def listener(records: Sequence[CycleRecord]) -> None:
        if records[0].cycle == cycle:
            raise BrokenPipeError

    return listener


@pytest.mark.parametrize("cycle", [0, 1, 2])
def test_a_listener_that_raises_loses_no_trained_cycle(tmp_path: Path, cycle: int) -> None:
    small, trained = SmallRun(tmp_path), []
    config = small.config.model_copy(update={"cycles": 4})

    class Counting(LocalPool):
        def start(self, arms: Sequence[ArmProgress], deadline: float | None = None) -> None:
            trained.append(len(trained))
            super().start(arms, deadline)

    with pytest.raises(BrokenPipeError):
        run(config, small.store, prepare(small.store, config), [raising(cycle)], Counting)
    assert cycle in trained
    assert cycles_of(small.store, "production") == trained


def test_old_models_that_cannot_be_deleted_do_not_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = SmallRun(tmp_path)
    config = small.config.model_copy(update={"cycles": 3})

    def busy(self: object, path: str) -> None:
        raise OSError("the disk is busy")

    start = prepare(small.store, config)
    monkeypatch.setattr("orchestrator.loop.committer.unneeded_models", lambda *_: ["x"])
    monkeypatch.setattr("orchestrator.storage.local_store.LocalStore.delete", busy)
    run(config, small.store, start, [], LocalPool)
    assert cycles_of(small.store, "production") == [0, 1, 2]
