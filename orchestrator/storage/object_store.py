"""A store on S3, GCS or any other file system of fsspec. Failed calls are retried."""

import errno
import io
import logging
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import fsspec

from divergence.errors import InputError, one_line
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store, require_same_bytes

RETRY_FOR_S = 300.0
"""How long a call is retried on a store that has answered before."""
PART_BYTES = 1 << 26
"""How much of an object one call reads: an object of a stranger may be larger than memory."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
T = TypeVar("T")
log = logging.getLogger(__name__)


def open_object_store(uri: str) -> Store:
    """Open the folder at a URI. file:// gives a local store."""
    try:
        fs, root = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except Exception as error:  # every file system raises its own types
        raise InputError(f"{uri}: cannot be opened: {one_line(error)}") from error
    if "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
        return LocalStore(Path(root))
    return ObjectStore(uri, fs, root.rstrip("/"))


class ObjectStore:
    """A prefix of an object store, where one put makes a complete object visible, or none.

    Every call is safe to repeat, so calls that fail are retried. The first call is not: if the
    store has never answered, the address or the credentials are probably wrong.
    """

    def __init__(self, uri: str, fs: Any, root: str, retry_for_s: float = RETRY_FOR_S) -> None:
        self.uri, self.fs, self.root = uri, fs, root
        self._retry_for_s, self._has_answered = retry_for_s, False

    def create(self, path: str, data: bytes) -> None:
        """One conditional put. A retry whose first put did arrive finds its own bytes."""

        def put() -> bool:
            try:
                self.fs.pipe_file(f"{self.root}/{path}", data, mode="create")
            except FileNotFoundError as error:  # no such bucket
                raise PermissionError(one_line(error)) from error
            except OSError as error:
                if not _already_exists(error):
                    raise
                return False
            return True

        if not self._with_retries(path, "written", put):
            require_same_bytes(self, path, data)

    def open(self, path: str) -> BinaryIO:
        """Read the first part of an object now, and the others when they are needed."""
        return io.BufferedReader(_Parts(lambda start: self._read_part(path, start)))

    def names(self, folder: str) -> list[str]:
        """The names of the objects in a folder."""
        where = f"{self.root}/{folder}".rstrip("/")
        try:
            found = self._with_retries(folder, "listed", lambda: self.fs.ls(where, detail=True))
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(f["name"]).name for f in found if f["type"] == "file")

    def delete(self, path: str) -> None:
        """Delete an object if it exists."""
        try:
            self._with_retries(path, "deleted", lambda: self.fs.rm_file(f"{self.root}/{path}"))
        except FileNotFoundError:
            return

    def delete_temporary(self, folder: str, prefix: str = "") -> None:
        """An object appears complete or not at all: there is nothing to delete."""

    def _read_part(self, path: str, start: int) -> bytes:
        """At most PART_BYTES of an object; none at its end. A failed read can be retried."""

        def read_part() -> bytes:
            where = f"{self.root}/{path}"
            try:
                part: bytes = self.fs.cat_file(where, start=start, end=start + PART_BYTES)
            except (OSError, RuntimeError) as error:
                if not _is_beyond_end(error):
                    raise
                return b""
            return part

        return self._with_retries(path, "read", read_part)

    def _with_retries(self, path: str, what: str, call: Callable[[], T]) -> T:
        """Call, and retry errors that may pass; InputError if they do not.

        FileNotFoundError is an answer of the store and is not retried.
        """
        give_up, pause_s = time.monotonic() + self._retry_for_s, FIRST_PAUSE_S
        while True:
            try:
                answer = call()
            except FileNotFoundError:
                self._has_answered = True
                raise
            except Exception as error:  # every file system raises its own types
                where = f"{self.uri}/{path}".rstrip("/")
                message = f"{where}: cannot be {what}: {one_line(error)}"
                final = _is_forbidden(error) or not self._has_answered
                if final or time.monotonic() >= give_up:
                    raise InputError(message) from error
                log.warning("%s; retrying in %g s", message, pause_s)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self._has_answered = True
                return answer


class _Parts(io.RawIOBase):
    """An object as a file."""

    def __init__(self, read_part: Callable[[int], bytes]) -> None:
        self._read_part = read_part
        self._part = io.BytesIO(read_part(0))
        self._end = self._size = len(self._part.getbuffer())

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or a part of it; 0 at the end of the object."""
        count = self._part.readinto(buffer)
        if count or self._size < PART_BYTES:
            return count
        self._part = io.BytesIO(self._read_part(self._end))
        self._size = len(self._part.getbuffer())
        self._end += self._size
        return self._part.readinto(buffer)


def _is_beyond_end(error: Exception) -> bool:
    """Whether the answer is a 416: no byte of the object is in the range. S3 and Google differ."""
    return getattr(error, "errno", None) == errno.EINVAL or "satisfiable" in str(error)


def _already_exists(error: OSError) -> bool:
    """Whether an object of this name exists. (A 409, from two puts at once, is retried.)"""
    message = f"{error} {error.__cause__}"
    return isinstance(error, FileExistsError) or "PreconditionFailed" in message


def _is_forbidden(error: Exception) -> bool:
    """Whether access is denied, which a retry cannot change. Google's client has no type for it."""
    return isinstance(error, PermissionError) or str(error).startswith("Forbidden")
