"""A run end to end on Ray, and that what happens to its processes does not change its bits."""

import os
import signal
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.journal.record import count_outcomes
from orchestrator.loop.run import Ending
from orchestrator.pool.trainer_actor import TrainerActor
from support.configs import small
from support.ray_runs import faulty, go
from support.runs import Heard, bits, go_here, records
from trainer.kernel import Tables

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]


@pytest.fixture(scope="module")
def whole_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    view = Heard()
    ended = go(small(), folder, view=view)
    assert (ended.ending, ended.cycle) == (Ending.COMPLETE, 4)
    assert [r.cycle for r in view.records] == [0, 0, 1, 1, 2, 2, 3, 3]
    return folder


@pytest.fixture(scope="module")
def whole(whole_folder: Path) -> dict[str, object]:
    return bits(whole_folder, small())


def test_a_run_commits_every_cycle_of_every_arm(whole_folder: Path) -> None:
    for arm in ("production", "entropic"):
        found = records(whole_folder, arm)
        assert [r.cycle for r in found] == [0, 1, 2, 3]
        assert found[0].served_logloss is None
        for before, after in pairwise(found):
            assert after.served_logloss is not None
            assert after.served_logloss > 0
            assert before.winner is not None
            assert before.search.incumbent == before.outcomes[before.winner].setting
            assert after.outcomes[0].setting == before.search.incumbent
        for record in found:
            assert count_outcomes(record).launched == 6
            assert count_outcomes(record).retained + count_outcomes(record).diverged == 6
            assert record.norms is not None
            assert record.norms.max_inf < 15
    again = Heard()
    assert go(small(), whole_folder, view=again).ending is Ending.COMPLETE
    assert again.records == []


def test_arms_draw_the_same(whole_folder: Path) -> None:
    both = [records(whole_folder, arm)[0].outcomes for arm in ("production", "entropic")]
    for one, other in zip(*both, strict=True):
        assert (one.setting.eta0, one.setting.beta) == (other.setting.eta0, other.setting.beta)


def test_one_actor_or_two_give_the_same_bits(whole: dict[str, object], tmp_path: Path) -> None:
    go(small(), tmp_path, actors=1)
    assert bits(tmp_path, small()) == whole


def test_a_run_without_ray_gives_the_same_bits(whole: dict[str, object], tmp_path: Path) -> None:
    """So what else happens to a run is tried without Ray, in test_local_runs.py."""
    assert go_here(small(), tmp_path).ending is Ending.COMPLETE
    assert bits(tmp_path, small()) == whole


def test_killed_actors_change_no_bit(whole: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "faults").mkdir()
    go(small(), tmp_path / "run", trainer=faulty(tmp_path / "faults", "kill", [1, 3], 3))
    assert len(list((tmp_path / "faults").iterdir())) == 3
    assert bits(tmp_path / "run", small()) == whole


def test_a_stopped_run_goes_on_bit_for_bit(whole: dict[str, object], tmp_path: Path) -> None:
    stop = threading.Event()
    ended = go(small(), tmp_path, view=Heard(stop, stop_after=0), stop=stop)
    assert ended.ending is Ending.STOPPED
    assert 0 < ended.cycle < 4
    assert go(small(), tmp_path).ending is Ending.COMPLETE
    assert bits(tmp_path, small()) == whole


def test_the_winner_s_actor_dies_after_training(whole: dict[str, object], tmp_path: Path) -> None:
    class Fickle(TrainerActor):
        def export(self, cycle: int, arm: str, instance: int) -> Tables:
            if cycle == 1 and not (tmp_path / arm).exists():
                (tmp_path / arm).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().export(cycle, arm, instance)

    go(small(), tmp_path / "run", trainer=Fickle)
    assert (tmp_path / "production").exists()
    assert bits(tmp_path / "run", small()) == whole
