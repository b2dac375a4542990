"""A run folder on an object store: S3, GCS, or whatever fsspec knows."""

import io
import logging
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeVar

import fsspec

from divergence.errors import InputError, one_line
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import Store, must_hold

OUTAGE_S = 300.0
"""How long a store that has answered before may fail until the run gives up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 20.0
T = TypeVar("T")
log = logging.getLogger(__name__)


def open_object_store(uri: str) -> Store:
    """The run folder at a URI. A file:// one is local."""
    try:
        fs, root = fsspec.core.url_to_fs(uri, use_listings_cache=False)
    except Exception as error:  # every file system has exceptions of its own
        raise InputError(f"{uri}: cannot be opened: {one_line(error)}") from error
    if "file" in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
        return LocalStore(Path(root))
    return ObjectStore(uri, fs, root.rstrip("/"))


class ObjectStore:
    """A prefix of an object store, where one put shows an object whole or not at all.

    An outage is waited out, since whatever is asked may be asked again; but not one before the
    first answer, which is more likely a mistake in the address or the credentials.
    """

    def __init__(self, uri: str, fs: Any, root: str, outage_s: float = OUTAGE_S) -> None:
        self.uri, self.fs, self.root = uri, fs, root
        self._outage_s, self._reached = outage_s, False

    def create(self, path: str, data: bytes) -> None:
        """One conditional put. A retry of one that had arrived unheard finds its own bytes."""

        def put() -> bool:
            try:
                self.fs.pipe_file(f"{self.root}/{path}", data, mode="create")
            except FileNotFoundError as error:  # no such bucket
                raise PermissionError(one_line(error)) from error
            except OSError as error:
                if not _taken(error):
                    raise
                return False
            return True

        if not self._ask(path, "written", put):
            must_hold(self, path, data)

    def open(self, path: str) -> BinaryIO:
        """The object, read as a whole, so that a read that breaks off can begin again."""
        return io.BytesIO(self._ask(path, "read", lambda: self.fs.cat_file(f"{self.root}/{path}")))

    def names(self, folder: str) -> list[str]:
        """The names of the objects in a folder."""
        where = f"{self.root}/{folder}".rstrip("/")
        try:
            found = self._ask(folder, "listed", lambda: self.fs.ls(where, detail=True))
        except FileNotFoundError:
            return []
        return sorted(PurePosixPath(f["name"]).name for f in found if f["type"] == "file")

    def delete(self, path: str) -> None:
        """Remove an object, if it is there."""
        try:
            self._ask(path, "deleted", lambda: self.fs.rm_file(f"{self.root}/{path}"))
        except FileNotFoundError:
            return

    def _ask(self, path: str, what: str, call: Callable[[], T]) -> T:
        """Call; FileNotFoundError is an answer, anything else that does not pass is one line."""
        last, pause_s = time.monotonic() + self._outage_s, FIRST_PAUSE_S
        while True:
            try:
                found = call()
            except FileNotFoundError:
                self._reached = True
                raise
            except Exception as error:  # credentials, endpoints, bodies: each has its own
                final = _forbidden(error) or not self._reached
                if final or time.monotonic() >= last:
                    where = f"{self.uri}/{path}".rstrip("/")
                    raise InputError(f"{where}: cannot be {what}: {one_line(error)}") from error
                log.warning("%s/%s: to be %s again: %s", self.uri, path, what, one_line(error))
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            else:
                self._reached = True
                return found


def _taken(error: OSError) -> bool:
    """Whether there is an object of this name. (A 409, of two puts at once, is to be retried.)"""
    told = f"{error} {error.__cause__}"
    return isinstance(error, FileExistsError) or "PreconditionFailed" in told


def _forbidden(error: Exception) -> bool:
    """Whether the store says no, which it will say again; Google's client has no type for it."""
    return isinstance(error, PermissionError) or str(error).startswith("Forbidden")
