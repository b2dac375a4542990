"""Tracked runs, read back by TensorBoard itself."""

import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.config.schema import config_hash
from orchestrator.journal.journal import commit, record_path
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.notebook import open_run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.storage.open import open_store
from orchestrator.track.background import BackgroundTracker
from orchestrator.track.event_log import EventLog
from orchestrator.track.tracked_cycle import TrackedCycle, tracked
from support.configs import SMALL, mistake_lines, small
from support.records import record
from support.runs import Heard, bits, go_here
from support.tensorboard_logs import hyperparameters, scalars, written_steps

ARMS = ("production", "entropic")


def go_on(folder: Path, cycles: int, name: str = "run") -> Heard:
    """A tracked run up to a cycle, without Ray, with the listeners of the command."""
    config = small(f"cycles={cycles}", f"track.tensorboard={folder / 'logs'}")
    store, heard = open_store(str(folder / name)), Heard()
    assert config.track is not None
    start = prepare(store, config)
    with BackgroundTracker(EventLog(config.track, config, store), heard.say) as tracker:
        tracker.offer(())
        run(config, store, start, [heard.show, tracker.offer], LocalPool)
    return heard


def logs(folder: Path, arm: str) -> Path:
    return folder / "logs" / "run" / arm


def test_the_logs_are_the_frame_of_the_run(tmp_path: Path) -> None:
    assert go_on(tmp_path, 3).messages == []
    frame = open_run(str(tmp_path / "run")).cycles.set_index(["arm", "cycle"])
    for arm in ARMS:
        found = scalars(logs(tmp_path, arm))
        own = frame.loc[arm]
        own["gain"] = 100 * (1 - own["served_logloss"] / own["constant_logloss"])
        for tag, steps in found.items():
            known = own[tag.partition("/")[2]].dropna().astype("float32")
            assert steps == known.to_dict(), tag
        shown = {"instances/retained_fraction", "loss/served_logloss", "loss/gain", "loss/logloss",
                 "champion/eta0", "time/seconds"}  # fmt: skip
        assert shown <= set(found)
    assert "champion/lam" in scalars(logs(tmp_path, "production"))
    given = hyperparameters(logs(tmp_path, "entropic"))
    assert given["seed"] == 3
    assert given["search.instances"] == 6
    assert given["arm.rule.name"] == "entropic"
    assert given["features.user.0.name"] == "age"
    assert not [key for key in given if key.startswith("track")]


def test_a_resumed_run_goes_on_without_a_step_twice(tmp_path: Path) -> None:
    go_here(small("cycles=1"), tmp_path / "run")  # not tracked yet
    for cycles in (2, 2, 4):
        assert go_on(tmp_path, cycles).messages == []
    go_here(small(), tmp_path / "calm")
    assert bits(tmp_path / "run", small()) == bits(tmp_path / "calm", small())
    for arm in ARMS:
        assert written_steps(logs(tmp_path, arm)) == [0, 1, 2, 3]
        assert list(scalars(logs(tmp_path, arm))["loss/logloss"]) == [0, 1, 2, 3]


def test_a_cycle_that_is_trained_again_counts_once(tmp_path: Path) -> None:
    go_on(tmp_path, 3)
    (tmp_path / "run" / record_path("entropic", 2)).write_text("altered")
    go_on(tmp_path, 4)
    for arm in ARMS:
        assert written_steps(logs(tmp_path, arm)) == [0, 1, 2, 2, 3]
        assert list(scalars(logs(tmp_path, arm))["loss/logloss"]) == [0, 1, 2, 3]


def test_a_write_that_was_cut_off_loses_nothing(tmp_path: Path) -> None:
    go_on(tmp_path, 3)
    (file,) = logs(tmp_path, "entropic").iterdir()
    file.write_bytes(file.read_bytes()[:-30])
    go_on(tmp_path, 4)
    assert list(scalars(logs(tmp_path, "entropic"))["loss/logloss"]) == [0, 1, 2, 3]
    assert written_steps(logs(tmp_path, "entropic")) == [0, 1, 2, 3]
    assert len(list(logs(tmp_path, "entropic").iterdir())) == 2


def test_a_place_that_fails_is_tried_again_and_the_run_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "logs"
    blocked.write_text("a file where the folder should be")
    config = small("cycles=4", f"track.tensorboard={blocked}")
    store, heard = open_store(str(tmp_path / "run")), Heard()
    assert config.track is not None

    with BackgroundTracker(EventLog(config.track, config, store), heard.say) as tracker:

        def mend(records: object) -> None:
            assert tracker._last is not None
            tracker._last.result()
            if len(heard.records) == 6:  # three cycles of two arms
                blocked.unlink()

        start = prepare(store, config)
        tracker.offer(())
        run(config, store, start, [heard.show, mend, tracker.offer], LocalPool)
    first, last = heard.messages
    assert first.startswith("not tracked, but tried again later: ")
    assert str(blocked) in first
    assert last == "tracking works again: no cycle is missing"
    assert len(heard.records) == 8
    assert written_steps(logs(tmp_path, "entropic")) == [0, 1, 2, 3]


def made_up(folder: Path) -> EventLog:
    config = small(f"track.tensorboard={folder / 'logs'}")
    assert config.track is not None
    return EventLog(config.track, config, open_store(str(folder / "run")))


def cycle_of_all(cycle: int) -> list[TrackedCycle]:
    return [tracked(record(arm, cycle)) for arm in ARMS]


def test_an_arm_that_cannot_be_written_does_not_write_the_others_twice(tmp_path: Path) -> None:
    log = made_up(tmp_path)
    log.append(cycle_of_all(0))
    logs(tmp_path, "entropic").rename(tmp_path / "gone")
    logs(tmp_path, "entropic").write_text("a file where the folder should be")
    pending = cycle_of_all(1)
    for cycle in (2, 3):
        with pytest.raises((InputError, OSError)):
            log.append(pending)
        pending += cycle_of_all(cycle)
    logs(tmp_path, "entropic").unlink()
    (tmp_path / "gone").rename(logs(tmp_path, "entropic"))
    log.append(pending)
    for arm in ARMS:
        assert written_steps(logs(tmp_path, arm)) == [0, 1, 2, 3]


def test_a_cycle_that_was_found_in_the_journal_is_not_written_again(tmp_path: Path) -> None:
    log = made_up(tmp_path)
    commit(open_store(str(tmp_path / "run")), [record(arm, 0) for arm in ARMS])
    log.append(())  # it was committed before this one reads the journal, and offered after that
    log.append(cycle_of_all(0))
    log.append(cycle_of_all(1))
    for arm in ARMS:
        assert written_steps(logs(tmp_path, arm)) == [0, 1]


def test_a_place_that_hangs_does_not_hold_the_run_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundTracker, "LAST_S", 0.1)
    (tmp_path / "logs" / "run").mkdir(parents=True)
    os.mkfifo(tmp_path / "logs" / "run" / "run.txt")  # nobody writes to it: a read never ends
    heard = go_on(tmp_path, 2)
    assert len(heard.records) == 4
    assert heard.messages == ["the last cycles may not be tracked"]


def test_two_runs_of_one_name_do_not_mix(tmp_path: Path) -> None:
    go_on(tmp_path, 1)
    (message,) = go_on(tmp_path, 1, name="other/run").messages
    assert f"holds the cycles of {tmp_path}/run: track to another folder" in message
    assert written_steps(logs(tmp_path, "entropic")) == [0]


def test_the_command_catches_up_with_a_complete_run(tmp_path: Path) -> None:
    go_here(small("cycles=2"), tmp_path / "run")
    config = tmp_path / "run.yaml"
    config.write_text(SMALL)
    track = f"track.tensorboard={tmp_path / 'logs'}"
    arguments = ["run", str(config), "--out", str(tmp_path / "run"), "--set", "cycles=2"]
    done = CliRunner().invoke(holdfast, [*arguments, "--set", track])
    assert done.exit_code == 0, done.output
    assert written_steps(logs(tmp_path, "production")) == [0, 1]


def test_without_the_library_it_says_so_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(f"{SMALL}track: {{tensorboard: logs}}\n")
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    done = CliRunner().invoke(holdfast, ["run", str(config), "--out", str(tmp_path / "run")])
    assert "pip install 'holdfast[tensorboard]'" in str(done.exception)
    assert not (tmp_path / "run").exists()


def test_the_key_is_off_by_default_and_changes_no_result() -> None:
    assert small().track is None
    assert config_hash(small()) == config_hash(small("track.tensorboard=logs"))
    (line,) = mistake_lines(SMALL, "track.tensorboard=s3://bucket/logs")
    assert "track.tensorboard: must be a folder of this machine" in line
