import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from orchestrator.cli import holdfast
from orchestrator.commands.health import examine
from orchestrator.journal.journal import commit
from orchestrator.journal.record import ChunkInfo, FileRef
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.storage.lease import LeaseTiming, hold_lease
from orchestrator.storage.local_store import LocalStore
from orchestrator.watch.health import reasons
from support.configs import MINIMAL, config
from support.event_files import rows, write
from support.records import outcome, record

HOLD_AND_DIE = """
import os, sys
from orchestrator.storage.lease import hold_lease
from orchestrator.storage.open import open_store
with hold_lease(open_store(sys.argv[1])):
    os._exit(9)
"""
GOOD = tuple(outcome(i) for i in range(10))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def cycles(
    store: LocalStore, count: int, every_s: float = 10.0, ended_s: float = 0.0, **changes: Any
) -> None:
    """Commit cycles, the last of which ended so many seconds ago."""
    prepare(store, config())
    for cycle in range(count):
        age = ended_s + every_s * (count - cycle)
        started = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
        more = {"started": started, "timings": {"cycle": every_s}, "outcomes": GOOD, "model": (),
                "chunk": ChunkInfo("toy", 100, 21, 0.51, {})}  # fmt: skip
        commit(store, [record(arm, cycle, **(more | changes)) for arm in ("a", "b")])


def why(store: LocalStore, *assignments: str) -> list[str]:
    return reasons(
        examine(store, config("source: toy\narms: [{name: a}, {name: b}]", *assignments))
    )


def test_a_run_that_is_driven_and_commits_is_well(store: LocalStore) -> None:
    cycles(store, 5)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        assert why(store) == []


def test_a_driver_whose_lease_has_no_time_is_examined(store: LocalStore) -> None:
    cycles(store, 5)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        (file,) = (store.root / "claims").glob("*.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | {"since": "yesterday"}))
        assert why(store) == []


def test_a_champion_whose_file_is_altered_or_gone_is_told(store: LocalStore) -> None:
    path, data = "models/b/cycle-000004.safetensors", b"vectors"
    cycles(store, 5, model=(FileRef(path, hashlib.sha256(data).hexdigest(), len(data)),))
    assert f"{path}: missing" in why(store, "cycles=5")
    store.create(path, data)
    assert not any(path in reason for reason in why(store, "cycles=5"))
    (store.root / path).write_bytes(b"vectorS")
    assert f"{path}: corrupt: its checksum does not match" in why(store, "cycles=5")


def test_a_complete_run_needs_no_driver(store: LocalStore) -> None:
    cycles(store, 5, ended_s=1e6)
    assert why(store, "cycles=5") == []


def test_a_run_that_was_stopped_says_so_and_how_to_resume(store: LocalStore) -> None:
    """It is not unhealthy, but a monitor must hear of it: the exit code is one of its own."""
    cycles(store, 5, ended_s=1e6)
    assert why(store) == []
    done = CliRunner().invoke(holdfast, ["health", str(store.root)])
    assert done.exit_code == 4
    assert done.output.splitlines()[0] == f"{store.uri}: stopped"
    assert f"holdfast run {store.uri}/config.yaml --out {store.uri} --resume" in done.output
    assert "!" not in done.output
    (store.root / "journal/b/cycle-000004.json").write_bytes(b"torn")
    assert CliRunner().invoke(holdfast, ["health", str(store.root)]).exit_code == 3


def test_several_cycles_a_second_are_a_rate(store: LocalStore) -> None:
    cycles(store, 5, every_s=0.4)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        done = CliRunner().invoke(holdfast, ["health", str(store.root)])
    assert re.search(r"ago, \d\.\d a second", done.output)


def test_a_run_that_was_resumed_with_more_cycles_is_not_finished(store: LocalStore) -> None:
    cycles(store, 5)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        assert not examine(store, config(MINIMAL, "cycles=3")).complete
    assert examine(store, config(MINIMAL, "cycles=3")).complete


def test_a_driver_that_has_died_is_a_reason(store: LocalStore) -> None:
    cycles(store, 5)
    dead = subprocess.run(
        [sys.executable, "-c", HOLD_AND_DIE, str(store.root)], check=False, timeout=60
    )
    assert dead.returncode == 9
    assert "its driver has died" in why(store)[0]
    assert CliRunner().invoke(holdfast, ["health", str(store.root)]).exit_code == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ended_s": 300.0}, "no commit for 300 s, but a cycle usually takes 10 s"),
        (
            {"outcomes": (*GOOD[:7], *(outcome(i, "diverged") for i in (7, 8, 9)))},
            "a: retained fraction 0.70 in the last hour, below 0.8",
        ),
        (
            {"outcomes": (*GOOD[:9], outcome(9, "late"))},
            "a: 0 failed and 5 late of 50 instances",
        ),
        ({"winner": None}, "a: no new champion in the last 3 cycles"),
        (
            {"served_logloss": 0.6},
            "a: the served log-loss, 0.60000, is worse than that of a constant CTR, 0.51000",
        ),
        (
            {"chunk": ChunkInfo("toy", 900, 21, 0.51, {"broken": 100})},
            "a: 10.0% of the rows were invalid and skipped",
        ),
    ],
)
def test_what_is_not_well_is_said(store: LocalStore, changes: dict[str, Any], reason: str) -> None:
    cycles(store, 5, **changes)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        found = [re.sub(r"for 30\d s", "for 300 s", line) for line in why(store)]
    assert found[0] == reason
    assert {line.split(": ")[-1] for line in found} == {reason.split(": ")[-1]}


def test_damage_and_a_run_that_has_not_begun(store: LocalStore) -> None:
    prepare(store, config())
    with hold_lease(store, timing=LeaseTiming(0.1)):
        assert why(store) == []
        done = CliRunner().invoke(holdfast, ["health", str(store.root)])
        assert (done.exit_code, done.output.splitlines()[0]) == (0, f"{store.uri}: starting")
        found = replace(examine(store, config()), driver_age_s=601.0)
        assert reasons(found) == ["no cycle is committed yet"]
    cycles(store, 3)
    (store.root / "journal/b/cycle-000001.json").write_bytes(b"torn")
    assert "journal/b/cycle-000001.json: corrupt: not a complete record" in why(store)


def test_the_command_fits_a_screen_and_tells_by_its_exit_code(store: LocalStore) -> None:
    cycles(store, 5)
    with hold_lease(store, timing=LeaseTiming(0.1)):
        done = CliRunner().invoke(holdfast, ["health", str(store.root)])
        assert done.exit_code == 0, done.output
        assert done.output.splitlines()[0] == f"{store.uri}: healthy"
        assert len(done.output.splitlines()) < 24
    done = CliRunner().invoke(holdfast, ["health", str(store.root), "--json"])
    assert done.exit_code == 4
    told = json.loads(done.output)
    assert (told["state"], told["well"], told["working"]) == ("stopped", False, False)
    assert told["arms"]["a"]["retained_fraction"] == 1.0


OVER_FILES = """
source: {kind: files, path: DAYS, cut: {minutes: 10}, timestamp: {unit: s}}
features: {user: [age], ad: [ad]}
search: {instances: 2}
arms: [{name: a, rule: l2}]
"""


def test_a_run_over_files_is_finished_when_they_are_read(tmp_path: Path) -> None:
    days, store = tmp_path / "days", LocalStore(tmp_path / "run")
    days.mkdir()
    write(days / "1.csv", rows(25))
    for text, more in ((OVER_FILES, ()), (OVER_FILES, ("cycles=9",))):
        over_days = config(text.replace("DAYS", str(days)), *more)
        run(over_days, store, prepare(store, over_days), [], LocalPool)
        done = CliRunner().invoke(holdfast, ["health", str(store.root)])
        assert (done.exit_code, done.output.splitlines()[0]) == (0, f"{store.uri}: finished")
        assert "one every" not in done.output
    write(days / "2.csv", rows(40)[25:])
    over_days = config(OVER_FILES.replace("DAYS", str(days)), "cycles=4")
    run(over_days, store, prepare(store, over_days), [], LocalPool)
    done = CliRunner().invoke(holdfast, ["health", str(store.root)])
    assert done.exit_code == 4  # one cycle of the new file is left
    assert done.output.splitlines()[0].endswith(": stopped")


def test_a_run_over_a_folder_is_finished_at_the_end_marker(tmp_path: Path) -> None:
    days, store = tmp_path / "days", LocalStore(tmp_path / "run")
    days.mkdir()
    write(days / "1.csv", rows(25))
    (days / "_DONE").touch()
    text = OVER_FILES.replace("kind: files", "kind: follow").replace(
        "cut: {minutes: 10}", "settle_s: 0"
    )
    followed = config(text.replace("DAYS", str(days)))
    run(followed, store, prepare(store, followed), [], LocalPool)
    assert examine(store, followed).complete


def test_rows_that_were_set_aside_are_said(store: LocalStore) -> None:
    skipped = {"timestamp is null": 2, "late row": 1000}
    cycles(store, 3, ended_s=1e6, chunk=ChunkInfo("toy", 10**6, 21, 0.51, skipped))
    said = CliRunner().invoke(holdfast, ["health", str(store.root)]).output
    text = f"6 rows set aside: {store.uri}/quarantine; 3,000 rows skipped: older than what was "
    assert f"  last hour    {text}trained\n" in said
    data = json.loads(CliRunner().invoke(holdfast, ["health", str(store.root), "--json"]).output)
    assert data["set_aside"] == {"timestamp is null": 6, "late row": 3000}
