"""The interface of a run folder: files that are written once and never changed."""

import hashlib
import io
from typing import BinaryIO, Protocol

from divergence.errors import InputError

BLOCK_BYTES = 1 << 22
MAX_BYTES = 1 << 28
"""The most that is read of a file whose size nothing names. A record of 100,000 instances has some
40 MB."""


class CorruptError(InputError):
    """A file is missing, incomplete, altered or no file of ours; the message says which and why."""


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

    def delete_temporary(self, folder: str, prefix: str = "") -> None:
        """Delete what killed writers of files with this prefix left in a folder.

        Nobody may be writing such a file now.
        """
        ...


def read(store: Store, path: str, limit: int = MAX_BYTES) -> bytes:
    """Read a file; CorruptError if it has more than `limit` bytes."""
    data = io.BytesIO()
    with store.open(path) as file:  # `limit` may be a stranger's: take no memory for it in advance
        while block := file.read(min(BLOCK_BYTES, limit + 1 - data.tell())):
            data.write(block)
    if data.tell() > limit:
        raise CorruptError(f"{path}: corrupt: must have at most {limit} bytes, but has more")
    return data.getvalue()


def sha256_of(store: Store, path: str, size: int) -> str:
    """The checksum of a file of `size` bytes, read block by block; not of what is beyond."""
    digest = hashlib.sha256()
    with store.open(path) as file:
        while block := file.read(min(BLOCK_BYTES, size + 1)):
            digest.update(block)
            size -= len(block)
    return digest.hexdigest()


def require_same_bytes(store: Store, path: str, data: bytes) -> None:
    """ConflictError unless the file has exactly these bytes."""
    try:
        same = read(store, path, len(data)) == data
    except CorruptError:
        same = False
    except FileNotFoundError:
        same = False  # another process is still writing it
    if not same:
        raise ConflictError(
            f"{store.uri}/{path}: already exists with other contents: another process writes to "
            "this folder; stop one of the two"
        )
