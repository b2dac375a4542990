"""The interface of a run folder: files that are written once and never changed."""

import hashlib
from typing import BinaryIO, Protocol

from divergence.errors import InputError

BLOCK_BYTES = 1 << 22


class ConflictError(InputError):
    """The file exists with other contents: a second driver writes to this folder."""


class Store(Protocol):
    """Files by relative path ("journal/a/cycle-000001.json"). Files are never overwritten.

    A reader sees a complete file or none, even if the writer is killed.
    """

    uri: str

    def create(self, path: str, data: bytes) -> None:
        """Write a new file. If it exists, the same bytes are fine and others a ConflictError."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading. FileNotFoundError if it does not exist."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted; empty if the folder does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...


def read(store: Store, path: str) -> bytes:
    """Read a file."""
    with store.open(path) as file:
        return file.read()


def sha256_of(store: Store, path: str) -> str:
    """The checksum of a file, which is read block by block."""
    digest = hashlib.sha256()
    with store.open(path) as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def require_same_bytes(store: Store, path: str, data: bytes) -> None:
    """ConflictError unless the file has exactly these bytes."""
    try:
        same = read(store, path) == data
    except FileNotFoundError:
        same = False  # another process is still writing it
    if not same:
        raise ConflictError(
            f"{store.uri}/{path}: already exists with other contents: another process writes to "
            "this folder; stop one of the two"
        )
