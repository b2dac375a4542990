from pathlib import Path

import pytest
import yaml

from divergence.errors import InputError
from orchestrator.config.schema import identity
from orchestrator.journal.journal import commit, record_path
from orchestrator.journal.run_folder import prepare, require_run, run_config
from orchestrator.storage.local_store import LocalStore
from support.configs import MINIMAL, config
from support.records import record


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def commit_cycles(store: LocalStore, cycles: int) -> None:
    for cycle in range(cycles):
        commit(store, [record(arm, cycle, model=()) for arm in ("a", "b")])


def test_a_new_run_begins_at_0_and_leaves_its_config(store: LocalStore) -> None:
    start = prepare(store, config())
    assert (start.cycle, start.records, start.messages) == (0, {}, ())
    assert run_config(store) == config()


def test_the_same_command_again_goes_on(store: LocalStore) -> None:
    prepare(store, config())
    commit_cycles(store, 3)
    start = prepare(store, config(MINIMAL, "cycles=99", "actors=1"))
    assert (start.cycle, sorted(start.records), start.messages) == (3, ["a", "b"], ())


def test_what_is_passed_over_is_told_and_set_aside(store: LocalStore) -> None:
    prepare(store, config())
    commit_cycles(store, 3)
    (store.root / record_path("b", 2)).write_bytes(b"")
    start = prepare(store, config())
    assert start.cycle == 2
    assert start.messages == (
        "journal/b/cycle-000002.json: corrupt: not a complete record",
        "journal/b/cycle-000002.json: moved to set-aside/",
        "journal/a/cycle-000002.json: moved to set-aside/",
    )
    assert prepare(store, config()).messages == ()


def test_a_first_cycle_that_was_not_finished_is_done_again(store: LocalStore) -> None:
    prepare(store, config())
    commit(store, [record("a", 0, model=())])
    assert prepare(store, config()).cycle == 0


def test_a_run_of_which_nothing_is_left_is_not_begun_anew(store: LocalStore) -> None:
    prepare(store, config())
    commit_cycles(store, 2)
    for cycle in (0, 1):
        (store.root / record_path("a", cycle)).write_bytes(b"")
    with pytest.raises(InputError) as caught:
        prepare(store, config())
    assert str(caught.value) == (
        f"{store.uri}: cannot resume, no cycle is complete: journal/a/cycle-000001.json: corrupt: "
        "not a complete record; restore the file, or start again in another folder"
    )


def test_a_start_that_failed_before_its_first_cycle_decides_nothing(store: LocalStore) -> None:
    prepare(store, config())
    mended = config(MINIMAL, "seed=5")
    assert prepare(store, mended).cycle == 0
    assert run_config(store) == mended


def test_another_config_is_refused_with_what_differs(store: LocalStore) -> None:
    prepare(store, config())
    commit_cycles(store, 1)
    with pytest.raises(InputError) as caught:
        prepare(store, config(MINIMAL, "seed=4", "cycles=3", "arms.0.rule=none"))
    assert str(caught.value) == (
        f"{store.uri}: holds a run with another config (seed was 0, is now 4; "
        "arms.0.rule.name (arm a) was 'l2', is now 'none'): use that config, or another --out"
    )


def test_there_must_be_a_run_to_resume(store: LocalStore) -> None:
    with pytest.raises(InputError, match="cannot resume: not a run folder"):
        require_run(store)
    with pytest.raises(InputError, match=r"not a run folder: it has no config\.yaml"):
        run_config(store)


WITHOUT_SIGNAL = (Path(__file__).parent / "assets" / "config-without-signal.yaml").read_text()


def test_a_run_from_before_signals_keeps_its_market_and_identity(store: LocalStore) -> None:
    store.create("config.yaml", WITHOUT_SIGNAL.encode())
    commit_cycles(store, 3)
    stored = run_config(store)
    assert identity(stored)["source"] == yaml.safe_load(WITHOUT_SIGNAL)["source"]
    assert prepare(store, stored).cycle == 3
    plain = "".join(
        line
        for line in WITHOUT_SIGNAL.splitlines(keepends=True)
        if line.strip() not in ("interaction_sd: 0.8", "quality_sd: 0.6")
    )
    assert prepare(store, config(plain, "source.signal=faint")).cycle == 3
    with pytest.raises(InputError, match=r"source.interaction_sd was 0\.8, is now"):
        prepare(store, config(plain))
