"""Two drivers on one run folder: one of them has it, and the other is refused."""

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.journal.journal import commit, newest_committed
from orchestrator.journal.run_folder import prepare
from orchestrator.storage.lease import FOLDER, LeaseTiming, current_lease, hold_lease
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.open import open_store
from orchestrator.storage.process import this_process
from orchestrator.storage.store import Store
from support.configs import config
from support.records import record

QUICK = LeaseTiming(heartbeat_s=0.05, expires_after_s=0.5)
ELSEWHERE = {"host": "far", "place": "far away", "pid": 1, "begun": "1", "since": "noon"}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return open_store(str(tmp_path / "run"))
    return open_store(request.getfixturevalue("bucket"))


def test_a_run_has_one_driver_and_is_free_after_it(store: Store) -> None:
    for _ in range(2):
        with hold_lease(store, timing=QUICK) as held:
            held.create("x", b"")
            with (
                pytest.raises(InputError, match=r"holds the lease on this run \(process"),
                hold_lease(store, timing=QUICK),
            ):
                raise AssertionError("two have it")
        assert store.names(FOLDER) == []


def test_of_many_that_come_at_once_one_has_it(store: Store) -> None:
    done = threading.Barrier(4)

    def come(_: int) -> bool:
        try:
            with hold_lease(store, timing=QUICK):
                done.wait()
                return True
        except InputError:
            done.wait()
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(come, range(4))) == [False, False, False, True]


def test_a_heartbeat_that_a_slow_look_finds_is_there_after_the_next_one(store: Store) -> None:
    def beats() -> set[int]:
        names = (n for n in store.names(FOLDER) if not n.endswith(".json"))
        return {int(name.split(".")[-1]) for name in names}

    with hold_lease(store, timing=replace(QUICK, heartbeat_s=0.2)):
        for _ in range(4):
            found = now = beats()
            while now <= found:
                now = beats()
            assert found & now or max(now) > max(found) + 1  # it was slower than two heartbeats
    assert store.names(FOLDER) == []


def test_a_driver_that_was_killed_on_this_host_is_in_nobody_s_way(tmp_path: Path) -> None:
    dead = (
        "import os, sys\n"
        "from orchestrator.storage.lease import hold_lease\n"
        "from orchestrator.storage.open import open_store\n"
        "with hold_lease(open_store(sys.argv[1])):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", dead, str(tmp_path)]).returncode == -9
    assert len(LocalStore(tmp_path).names(FOLDER)) == 2
    said: list[str] = []
    with hold_lease(LocalStore(tmp_path), said.append):
        assert said == []  # it did not have to wait
        assert [name for name in LocalStore(tmp_path).names(FOLDER) if "000001" in name] == []


def test_a_driver_elsewhere_counts_as_dead_after_a_silence(store: Store) -> None:
    store.create(f"{FOLDER}/000007.json", json.dumps(ELSEWHERE).encode())
    store.create(f"{FOLDER}/000007.abc.4", b"")
    said: list[str] = []
    with hold_lease(store, said.append, QUICK):
        lease = current_lease(store)
        assert lease is not None
        assert (lease.epoch, lease.process) == (8, this_process())
    assert "process 1 on far since noon holds the lease and cannot be seen from here" in said[0]


def test_a_driver_elsewhere_that_beats_is_alive(store: Store) -> None:
    store.create(f"{FOLDER}/000007.json", json.dumps(ELSEWHERE).encode())

    def beat(waiting: str) -> None:
        assert "waiting" in waiting
        store.create(f"{FOLDER}/000007.abc.5", b"")

    with (
        pytest.raises(InputError, match="process 1 on far since noon"),
        hold_lease(store, beat, replace(QUICK, expires_after_s=60.0)),
    ):
        raise AssertionError("two have it")


def test_an_unreadable_lease_expires(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create(f"{FOLDER}/000001.json", b"{torn")
    with hold_lease(store, timing=QUICK):
        assert current_lease(store) is not None


def test_one_that_was_paused_and_replaced_writes_nothing_more(store: Store) -> None:
    """Its heart stands still, another takes over, and it wakes in the middle of a commit."""
    asleep = LeaseTiming(heartbeat_s=1e6)
    with hold_lease(store, timing=asleep) as first:
        start = prepare(first, config())
        assert start.cycle == 0
        commit(first, [record(arm, 0, driver="first", model=()) for arm in ("a", "b")])
        first.create("models/a/cycle-000001.safetensors", b"half a commit")
        store.create(f"{FOLDER}/000002.json", json.dumps(ELSEWHERE).encode())  # takes over
        store.create(f"{FOLDER}/000002.abc.1", b"")
        assert prepare(store, config()).cycle == 1  # and clears the way
        assert store.names("models/a") == []
        with pytest.raises(InputError, match=r"taken over this run \(process 1"):
            commit(first, [record(arm, 1, driver="first", model=()) for arm in ("a", "b")])
        with pytest.raises(InputError, match="taken over this run"):
            first.delete("config.yaml")
        commit(store, [record(arm, 1, driver="second", model=()) for arm in ("a", "b")])
    assert {"000002.abc.1", "000002.json"} <= set(store.names(FOLDER))  # not its to release
    found = newest_committed(store, {"a": 0, "b": 0})
    assert (found.cycle, {r.driver for r in found.records.values()}) == (1, {"second"})


def test_a_released_run_does_not_wake_a_paused_driver(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with hold_lease(store, timing=LeaseTiming(heartbeat_s=1e6)) as first:
        for name in store.names(FOLDER):  # another took over, ended, and a third has begun
            store.delete(f"{FOLDER}/{name}")
        store.create(f"{FOLDER}/000001.json", json.dumps(ELSEWHERE).encode())
        with pytest.raises(InputError, match="taken over this run"):
            first.create("x", b"")
