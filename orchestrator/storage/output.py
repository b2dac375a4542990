"""Where a report is written: a folder or object-store URI, whose files it may replace."""

import secrets
from pathlib import Path
from typing import Any

import fsspec

from divergence.errors import InputError


class Output:
    """A folder that is written to again and again: unlike a run's store, files are replaced.

    A file is seen as it was or as it will be, never half written.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") or "/"
        self._fs: Any = None
        if "://" in uri:
            try:
                self._fs, self._root = fsspec.core.url_to_fs(uri, use_listings_cache=False)
            except (ValueError, ImportError) as error:
                reason = " ".join(str(error).split())
                raise InputError(f"{uri}: cannot be opened: {reason}") from None

    def put(self, path: str, data: bytes) -> None:
        """Write a file, or replace it."""
        if self._fs is not None:
            self._fs.pipe_file(f"{self._root.rstrip('/')}/{path}", data)
            return
        target = Path(self.uri).expanduser() / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{self.uri}: cannot be written to: it is no folder") from None
        beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            beside.write_bytes(data)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
