"""Whatever is in a folder, nothing outside it is touched, and no read hangs or grows."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.storage import local_store
from orchestrator.storage.lease import LeaseTiming, current_lease, hold_lease
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.output import Output
from orchestrator.storage.store import CorruptError, read, sha256_of

FAST = LeaseTiming(heartbeat_s=0.05, expires_after_s=0.2)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to("/etc/passwd"),
        lambda path: path.symlink_to(path),
        os.mkfifo,
    ],
)
def test_only_regular_files_are_opened(make: Callable[[Path], None], tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    make(tmp_path / "x")
    assert store.names("") == ["x"]
    with pytest.raises(CorruptError, match="must be a regular file"):
        read(store, "x")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "..", "", "out/x", "loop/x"])
def test_nothing_outside_is_read_written_or_deleted(path: str, tmp_path: Path) -> None:
    root, outside = tmp_path / "run", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (tmp_path / "x").write_text("mine")
    (outside / "x").write_text("mine")
    (root / "out").symlink_to(outside)
    (root / "loop").symlink_to(root / "loop")
    store = LocalStore(root)
    for call in (
        lambda: read(store, path),
        lambda: store.create(path, b"theirs"),
        lambda: store.delete(path),
        lambda: Output(str(root)).put(path, b"theirs"),
    ):
        with pytest.raises(CorruptError, match="must be a"):
            call()
    assert (outside / "x").read_text() == (tmp_path / "x").read_text() == "mine"
    for folder in ("out", "loop", "..", "/etc"):
        with pytest.raises(CorruptError):
            store.names(folder)


def test_a_run_folder_may_itself_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    store = LocalStore(tmp_path / "link")
    store.create("a/x", b"1")
    assert read(store, "a/x") == (tmp_path / "real/a/x").read_bytes() == b"1"


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("x", b"abc")
    assert read(store, "x", 3) == b"abc"
    with pytest.raises(CorruptError, match="at most 2 bytes"):
        read(store, "x", 2)
    assert sha256_of(store, "x", 2) == sha256_of(store, "x", 3)  # one byte more, and no further
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", 1 << 40)
    assert len(sha256_of(store, "sparse", 10)) == 64


LEASE = '{"host": "h", "place": "p", "pid": %s, "begun": "1", "since": "now"}'


@pytest.mark.parametrize(
    "text",
    [
        LEASE % "1e999",
        LEASE % "-1",
        LEASE % ("9" * 5000),
        LEASE.replace('"h"', '"h\\u001b[2J"') % 1,
        LEASE.replace('"h"', f'"{"h" * 100_000}"') % 1,
        "[" * 100_000,
        "{}",
        "\xff",
    ],
)
def test_a_lease_that_nobody_can_have_written_expires(text: str, tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("claims/000001.json", text.encode("latin-1"))
    lease = current_lease(store)
    assert lease is not None
    assert str(lease) == "an unknown process (lease 1 cannot be read)"
    with hold_lease(store, timing=FAST):
        assert "000002.json" in store.names("claims")


def test_a_lease_that_is_a_device_expires(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims/000001.json").symlink_to("/dev/zero")
    with hold_lease(LocalStore(tmp_path), timing=FAST):
        pass


def test_a_driver_deletes_what_a_killed_one_was_writing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.create("claims/000001.json", b"{}")
    killed = ".{}.0123456789abcdef"
    (tmp_path / "claims" / killed.format("000001.0123456789abcdef.7")).touch()
    rival = tmp_path / "claims" / killed.format("000003.json")
    rival.touch()
    with hold_lease(store, timing=FAST) as leased:
        (tmp_path / "models").mkdir()
        (tmp_path / "models" / killed.format("cycle-000001.safetensors")).touch()
        (tmp_path / "models/.mine").touch()
        leased.delete_temporary("models")
        assert [path.name for path in (tmp_path / "models").iterdir()] == [".mine"]
    assert list((tmp_path / "claims").iterdir()) == [rival]


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: LocalStore(folder).create("a/x", b"1"),
        lambda folder: Output(str(folder)).put("a/x", b"1"),
    ],
)
def test_a_full_disk_is_an_error_that_names_the_file(
    write: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local_store.os, "fsync", full)
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write(tmp_path)
    assert caught.value.filename == str(tmp_path / "a/x")
    assert str(caught.value).endswith(f"No space left on device: '{tmp_path}/a/x'")
    assert not list((tmp_path / "a").iterdir())
