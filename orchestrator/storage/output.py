"""Where reports and exports are written: a folder or URI whose files may be replaced."""

from pathlib import Path
from typing import Any

import fsspec

from divergence.errors import InputError
from orchestrator.storage.local_store import inside, naming, temporary_path
from orchestrator.validation.uris import check_uri


def write_file(path: str | Path, data: bytes) -> None:
    """Write or replace one file at a local path or URI; InputError if the path is a folder's."""
    folder, slash, name = str(path).rpartition("/")
    if not name:
        raise InputError(f"{path}: must be a file, not a folder")
    Output(folder + slash or ".").put(name, data)


class Output:
    """A folder whose files may be replaced, unlike those of a run's store.

    A reader sees the old file or the new one, never a partial one.
    """

    def __init__(self, uri: str) -> None:
        self.uri = check_uri(uri).rstrip("/") or "/"
        self._fs: Any = None
        if "://" in uri:
            try:
                self._fs, self._root = fsspec.core.url_to_fs(uri, use_listings_cache=False)
            except (ValueError, ImportError) as error:
                reason = " ".join(str(error).split())
                raise InputError(f"{uri}: cannot be opened: {reason}") from None

    def put(self, path: str, data: bytes) -> None:
        """Write or replace a file."""
        if self._fs is not None:
            self._fs.pipe_file(f"{self._root.rstrip('/')}/{path}", data)
            return
        target = inside(Path(self.uri).expanduser(), path)
        with naming(target):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                raise InputError(f"{self.uri}: cannot be written to: not a folder") from None
            temporary = temporary_path(target)
            try:
                temporary.write_bytes(data)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)
