"""A run folder, on a local path or any fsspec URI: whole files, written once, never altered."""

import errno
import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import BinaryIO, Protocol

from divergence.errors import InputError

BLOCK = 1 << 22


class ConflictError(InputError):
    """Other bytes stand where a file was to be created: a second driver is at work here."""


class Store(Protocol):
    """Files by relative path ("journal/a/cycle-000001.json"). There is no overwriting.

    A file is seen whole or not at all, whatever happens while it is written.
    """

    uri: str

    def create(self, path: str, data: bytes) -> None:
        """Write a new file. The same bytes there already will do; others are ConflictError."""
        ...

    def open(self, path: str) -> BinaryIO:
        """The file, to be read. FileNotFoundError where there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; none where the folder is not there."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


def open_store(uri: str) -> Store:
    """The run folder at a local path or URI. Nothing is created yet."""
    if "://" not in uri:
        return LocalStore(Path(uri).expanduser().absolute())
    if re.match(r"[^/]*://[^/]*:[^/]*@", uri):
        raise InputError(
            f"{uri.split('://')[0]}://…: a password must not stand in a URI, which is shown in "
            "logs and records: give it to the file system by its environment"
        )
    from orchestrator.object_store import open_objects  # fsspec is slow to load

    return open_objects(uri)


def read(store: Store, path: str) -> bytes:
    """A file's bytes."""
    with store.open(path) as file:
        return file.read()


def sha256_of(store: Store, path: str) -> str:
    """A file's checksum, read block by block."""
    digest = hashlib.sha256()
    with store.open(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


class LocalStore:
    """A folder of this machine, or of a file system that it mounts."""

    def __init__(self, root: Path) -> None:
        self.root, self.uri = root, str(root)

    def create(self, path: str, data: bytes) -> None:
        """Write beside, sync, then give it its name; a name that is taken is never replaced."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            with beside.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _name(beside, target)
        except FileExistsError:
            must_hold(self, path, data)
        finally:
            beside.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def open(self, path: str) -> BinaryIO:
        """The file, to be read."""
        return (self.root / path).open("rb")

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without those still being written."""
        try:
            entries = list((self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(e.name for e in entries if e.is_file() and not e.name.startswith("."))

    def delete(self, path: str) -> None:
        """Remove a file, if it is there."""
        (self.root / path).unlink(missing_ok=True)


def must_hold(store: Store, path: str, data: bytes) -> None:
    """ConflictError unless the file there has these very bytes."""
    try:
        same = read(store, path) == data
    except FileNotFoundError:
        same = False  # another's put is under way
    if not same:
        raise ConflictError(
            f"{store.uri}/{path}: is there already, with other contents: another process writes "
            "to this run; stop one of the two"
        )


def _name(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        # No hard links here (FAT, some network mounts): the next best that does not overwrite.
        if target.exists():
            raise FileExistsError(str(target)) from None
        beside.rename(target)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
