"""A folder of whole files, written once and never altered: what every storage offers."""

import hashlib
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
