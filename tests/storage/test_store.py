import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from divergence.errors import InputError
from orchestrator.storage import object_store
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.object_store import ObjectStore
from orchestrator.storage.open import open_store
from orchestrator.storage.store import ConflictError, CorruptError, Store, read, sha256_of


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "local":
        yield open_store(str(tmp_path / "runs" / "first"))
    elif request.param == "memory":
        import fsspec

        yield open_store(f"memory://{request.node.name}/runs")
        fsspec.filesystem("memory").store.clear()
    else:
        yield open_store(request.getfixturevalue("bucket"))


def test_a_file_is_written_once_and_never_replaced(store: Store) -> None:
    store.create("journal/a/x.json", b"one")
    store.create("journal/a/x.json", b"one")
    with pytest.raises(ConflictError, match=r"journal/a/x\.json: already exists with other"):
        store.create("journal/a/x.json", b"two")
    assert read(store, "journal/a/x.json") == b"one"


def test_names_are_sorted_files_of_one_folder(store: Store) -> None:
    assert store.names("journal/a") == []
    for path in ("journal/a/2", "journal/a/1", "journal/a/deep/3", "top"):
        store.create(path, b"")
    assert store.names("journal/a") == ["1", "2"]
    assert store.names("") == ["top"]
    store.delete("journal/a/1")
    store.delete("journal/a/1")
    assert store.names("journal/a") == ["2"]


def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        read(store, "nothing")


def test_a_checksum_is_that_of_the_bytes(store: Store) -> None:
    store.create("x", b"abc")
    assert sha256_of(store, "x", 3).startswith("ba7816bf8f01cfea")


def test_of_many_writers_one_wins(store: Store) -> None:
    def write(i: int) -> bool:
        try:
            store.create("claim", str(i).encode())
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        wins = list(pool.map(write, range(8)))
    assert wins.count(True) == 1
    assert read(store, "claim") == str(wins.index(True)).encode()


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_write_that_breaks_off_leaves_nothing(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        store.create("x", b"abc")
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    store.create("x", b"abc")


def test_where_there_are_no_hard_links_nothing_is_replaced_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)

    def unable(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unable)
    store.create("x", b"one")
    with pytest.raises(ConflictError):
        store.create("x", b"two")
    assert read(store, "x") == b"one"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_leftover_of_a_killed_write_is_not_seen(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    (tmp_path / ".x.0123").write_bytes(b"half")
    assert store.names("") == []


def test_a_file_uri_is_a_local_store(tmp_path: Path) -> None:
    assert open_store(f"file://{tmp_path}").uri == str(tmp_path)


def test_an_unknown_protocol_is_one_line() -> None:
    with pytest.raises(InputError, match=r"^nope://x: cannot be opened: Protocol not known: nope"):
        open_store("nope://x")


def test_a_file_is_read_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 1000)
    data = bytes(range(250)) * 20
    for size in (0, 1, 999, 1000, 1001, 5000):
        store.create(f"{size}", data[:size])
        assert read(store, f"{size}") == data[:size]


class CountedObjects(MemoryFileSystem):
    """Counts the bytes that it hands out."""

    cachable = False
    handed_out = 0

    def cat_file(self, *args: Any, **options: Any) -> bytes:
        data = super().cat_file(*args, **options)
        self.handed_out += len(data)
        return bytes(data)


def test_of_an_object_only_as_much_is_read_as_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 1000)
    objects = CountedObjects()
    store = ObjectStore("memory://parts", objects, "/parts")
    store.create("huge", bytes(1_000_000))
    objects.handed_out = 0
    with pytest.raises(CorruptError, match="at most 1500 bytes"):
        read(store, "huge", 1500)
    assert objects.handed_out == 2000
    objects.rm("/parts", recursive=True)


def test_a_limit_takes_no_memory(tmp_path: Path) -> None:
    """It is the size that a record names, which may come from a stranger."""
    store = LocalStore(tmp_path)
    store.create("x", b"abc")
    assert read(store, "x", 1 << 62) == b"abc"
