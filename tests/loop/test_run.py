"""A run end to end, and that what happens on the way does not change its bits."""

import os
import shutil
import signal
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.journal.record import count_outcomes
from orchestrator.loop.run import Ending
from orchestrator.pool.trainer_actor import TrainerActor
from orchestrator.storage.open import open_store
from support.configs import small
from support.ray_runs import Heard, bits, faulty, go, records
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


@pytest.fixture(scope="module")
def three_cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    go(small("cycles=3"), folder)
    return folder


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


@pytest.mark.parametrize("what", ["journal/entropic", "models/production", "models/entropic"])
def test_a_torn_file_costs_one_cycle(
    whole: dict[str, object], three_cycles: Path, tmp_path: Path, what: str
) -> None:
    shutil.copytree(three_cycles, tmp_path, dirs_exist_ok=True)
    torn = sorted((tmp_path / what).iterdir())[-1]
    torn.write_bytes(torn.read_bytes()[:-9])
    view = Heard()
    go(small(), tmp_path, view=view)
    assert torn.name in view.messages[0]
    assert [r.cycle for r in view.records] == [2, 2, 3, 3]
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


def test_an_arm_starts_from_another(tmp_path: Path) -> None:
    start = "arms.1.start_from={arm: production, cycle: 2}"
    go(small(start), tmp_path / "a")
    assert [r.cycle for r in records(tmp_path / "a", "entropic")] == [2, 3]
    first = records(tmp_path / "a", "entropic")[0]
    other = records(tmp_path / "a", "production")
    assert first.served_logloss == other[2].served_logloss
    assert other[1].search.incumbent is not None
    assert first.outcomes[0].setting.eta0 == other[1].search.incumbent.eta0
    stop = threading.Event()
    go(small(start), tmp_path / "b", view=Heard(stop, stop_after=0), stop=stop)
    assert go(small(start), tmp_path / "b").ending is Ending.COMPLETE
    assert bits(tmp_path / "a", small()) == bits(tmp_path / "b", small())


def test_an_arm_that_loses_its_first_cycle_keeps_what_it_started_from(tmp_path: Path) -> None:
    start = ["arms.1.start_from={arm: production, cycle: 2}", "search.sampler=random",
             "arms.1.rule=none",
             "arms.1.ranges={eta0: {low: 1e5, high: 1e6}, alpha: 0.001}"]  # fmt: skip
    go(small(*start), tmp_path / "a")
    assert [r.winner for r in records(tmp_path / "a", "entropic")] == [None, None]
    assert all(r.model for r in records(tmp_path / "a", "entropic"))
    go(small("cycles=3", *start), tmp_path / "b")
    go(small(*start), tmp_path / "b")
    assert bits(tmp_path / "a", small()) == bits(tmp_path / "b", small())


def test_when_all_diverge_the_champion_stays_and_caution_rises(tmp_path: Path) -> None:
    hot = ["search.ranges.eta0={low: 1e5, high: 1e6}", "search.ranges.alpha=0.001",
           "cycles=3", "search.sampler=random"]  # fmt: skip
    go(small(*hot), tmp_path / "hot")
    for arm in ("production", "entropic"):
        found = records(tmp_path / "hot", arm)
        assert [r.winner for r in found] == [None] * 3
        assert [r.caution for r in found] == [0, 1, 2]
        assert [r.model for r in found] == [()] * 3
        assert all(count_outcomes(r).retained_fraction == 0 for r in found)


def test_a_followed_arm_and_old_models_go(tmp_path: Path) -> None:
    config = small(
        "search.sampler={kind: adaptive, follow: production}",
        "retention={keep_last: 1}",
        "cycles=6",
    )
    go(config, tmp_path)
    store = open_store(str(tmp_path))
    for arm in ("production", "entropic"):
        last = records(tmp_path, arm)[-1]
        assert {f"models/{arm}/{n}" for n in store.names(f"models/{arm}")} == {
            file.path for file in last.model
        }
    pairs = zip(records(tmp_path, "production"), records(tmp_path, "entropic"), strict=True)
    for one, other in pairs:
        assert one.outcomes[0].setting.eta0 == other.outcomes[0].setting.eta0


def test_a_run_of_one_arm_works(tmp_path: Path) -> None:
    one = small("arms=[{name: only, rule: l2}]", "cycles=2")
    assert go(one, tmp_path).ending is Ending.COMPLETE
    assert len(records(tmp_path, "only")) == 2
