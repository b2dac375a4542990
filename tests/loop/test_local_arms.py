"""Runs without Ray: torn files, arms that start from another or follow it, all instances lost.

test_run.py shows that Ray gives the same bits.
"""

import shutil
import threading
from pathlib import Path

import pytest

from orchestrator.journal.record import count_outcomes
from orchestrator.loop.run import Ending
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import Heard, bits, go_here, records


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("whole")
    assert go_here(small(), folder).ending is Ending.COMPLETE
    return bits(folder, small())


@pytest.fixture(scope="module")
def three_cycles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("three")
    go_here(small("cycles=3"), folder)
    return folder


@pytest.mark.parametrize("what", ["journal/entropic", "models/production", "models/entropic"])
def test_a_torn_file_costs_one_cycle(
    whole: dict[str, object], three_cycles: Path, tmp_path: Path, what: str
) -> None:
    shutil.copytree(three_cycles, tmp_path, dirs_exist_ok=True)
    torn = sorted((tmp_path / what).iterdir())[-1]
    torn.write_bytes(torn.read_bytes()[:-9])
    view = Heard()
    go_here(small(), tmp_path, view=view)
    assert torn.name in view.messages[0]
    assert [r.cycle for r in view.records] == [2, 2, 3, 3]
    assert bits(tmp_path, small()) == whole


def test_an_arm_starts_from_another(tmp_path: Path) -> None:
    start = "arms.1.start_from={arm: production, cycle: 2}"
    go_here(small(start), tmp_path / "a")
    assert [r.cycle for r in records(tmp_path / "a", "entropic")] == [2, 3]
    first = records(tmp_path / "a", "entropic")[0]
    other = records(tmp_path / "a", "production")
    assert first.served_logloss == other[2].served_logloss
    assert other[1].search.incumbent is not None
    assert first.outcomes[0].setting.eta0 == other[1].search.incumbent.eta0
    stop = threading.Event()
    go_here(small(start), tmp_path / "b", view=Heard(stop, stop_after=0), stop=stop)
    assert go_here(small(start), tmp_path / "b").ending is Ending.COMPLETE
    assert bits(tmp_path / "a", small()) == bits(tmp_path / "b", small())


def test_an_arm_that_loses_its_first_cycle_keeps_what_it_started_from(tmp_path: Path) -> None:
    start = ["arms.1.start_from={arm: production, cycle: 2}", "search.sampler=random",
             "arms.1.rule=l2",
             "arms.1.ranges={eta0: {low: 1e5, high: 1e6}, alpha: 0.001}"]  # fmt: skip
    go_here(small(*start), tmp_path / "a")
    assert [r.winner for r in records(tmp_path / "a", "entropic")] == [None, None]
    assert all(r.model for r in records(tmp_path / "a", "entropic"))
    go_here(small("cycles=3", *start), tmp_path / "b")
    go_here(small(*start), tmp_path / "b")
    assert bits(tmp_path / "a", small()) == bits(tmp_path / "b", small())


def test_when_all_diverge_the_champion_stays_and_caution_rises(tmp_path: Path) -> None:
    hot = ["search.ranges.eta0={low: 1e5, high: 1e6}", "search.ranges.alpha=0.001",
           "cycles=3", "search.sampler=random"]  # fmt: skip
    go_here(small(*hot), tmp_path / "hot")
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
    go_here(config, tmp_path)
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
    assert go_here(one, tmp_path).ending is Ending.COMPLETE
    assert len(records(tmp_path, "only")) == 2
