"""Records that someone else has written and sealed: each is corrupt, or harmless."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from divergence.errors import InputError
from orchestrator.commands.health import examine
from orchestrator.config.file import read_config
from orchestrator.journal.journal import newest_committed, read_record
from orchestrator.journal.run_folder import prepare, run_config
from orchestrator.loop.run import run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.publish.place import read_version
from orchestrator.storage.checksummed import CorruptError, dumps, loads
from orchestrator.storage.local_store import LocalStore

TEXT = """
seed: 3
cycles: 2
source: {kind: simulator, preset: stormy, signal: faint, events_per_cycle: 300,
         users: 2000, ads: 100}
features: {user: [age, gender, device], ad: [campaign, category]}
model: {expire_after: 2}
search: {instances: 2, ranges: {eta0: 0.3, alpha: 3, beta: 0.5}, sampler: random}
arms: [{name: a, rule: {name: l2, lam: 0.001}}]
"""
RECORD = "journal/a/cycle-000001.json"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store, config = LocalStore(tmp_path), read_config(TEXT, "run.yaml")
    run(config, store, prepare(store, config), [], LocalPool)
    return tmp_path


def reseal(path: Path, change: Change) -> None:
    body = loads(path.read_bytes(), "x")
    change(body)
    path.write_bytes(dumps(body))


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["model"][0].update(path="/dev/zero"),
        lambda body: body["model"][0].update(path="models/../../../dev/zero"),
        lambda body: body["model"][0].update(path="models/a/../a/cycle-000000.safetensors"),
        lambda body: body["model"][0].update(path="config.yaml"),
        lambda body: body["model"][0].update(size=-1),
        lambda body: body["model"][0].update(size=10**30),
        lambda body: body["model"][0].update(sha256="x"),
        lambda body: body.update(model=body["model"] * 1000),
        lambda body: body.update(started="yesterday"),
        lambda body: body.update(started="9999-12-31T23:59:59+00:00"),
        lambda body: body.update(started="2020-01-01T00:00:00"),
        lambda body: body.update(caution=10**30),
        lambda body: body["chunk"].update(events=10**30),
    ],
)
def test_such_a_record_is_corrupt_and_the_cycle_before_it_is_used(
    change: Change, folder: Path
) -> None:
    reseal(folder / RECORD, change)
    store = LocalStore(folder)
    with pytest.raises(CorruptError, match=RECORD):
        read_record(store, "a", 1)
    assert newest_committed(store, {"a": 0}).cycle == 0
    assert examine(store, run_config(store)).damaged


def test_a_model_that_is_a_device_or_longer_than_its_record_says_is_corrupt(folder: Path) -> None:
    store = LocalStore(folder)
    path = folder / read_record(store, "a", 1).model[-1].path
    os.truncate(path, 1 << 40)
    assert newest_committed(store, {"a": 0}).cycle < 1
    path.unlink()
    path.symlink_to("/dev/zero")
    assert newest_committed(store, {"a": 0}).cycle < 1


def test_times_that_are_no_times_do_not_stop_health(folder: Path) -> None:
    reseal(folder / RECORD, lambda body: body["timings"].update(cycle=1e308))
    store = LocalStore(folder)
    assert examine(store, run_config(store)).commit_age_s is not None


def test_a_config_that_is_a_device_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"config\.yaml: corrupt: must be a regular file"):
        run_config(LocalStore(tmp_path))


def test_a_resume_deletes_what_a_killed_driver_was_writing(folder: Path) -> None:
    names = ["journal/a/.cycle-000002.json", "models/a/.cycle-000002.safetensors", ".config.yaml"]
    for name in names:
        (folder / f"{name}.0123456789abcdef").touch()
    (folder / ".report.html.0123456789abcdef").touch()  # a report may be being written
    prepare(LocalStore(folder), read_config(TEXT, "run.yaml"))
    assert [path.name for path in folder.rglob(".*")] == [".report.html.0123456789abcdef"]


@pytest.mark.parametrize(
    "change",
    [
        {"files": [{"path": "/dev/zero", "sha256": "ab" * 32, "size": 1}]},
        {"files": []},
        {"files": 3},
        {"published": "now"},
        {"cycle": "x"},
        {"unknown": 1},
    ],
)
def test_a_version_that_nobody_published_is_corrupt(change: dict[str, Any], tmp_path: Path) -> None:
    path = "models/cycle-000001-0123456789ab.safetensors"
    version = {
        "schema": 1, "number": 1, "line": "x/a", "cycle": 1,
        "published": "2024-05-01T12:00:00+00:00",
        "files": [{"path": path, "sha256": "ab" * 32, "size": 1}],
    }  # fmt: skip
    store = LocalStore(tmp_path)
    store.create("versions/00000001.json", dumps(version))
    store.create("versions/00000002.json", dumps(version | {"number": 2} | change))
    assert read_version(store, 1).files[0].path == path
    with pytest.raises(CorruptError, match="not a valid version file"):
        read_version(store, 2)
