"""A store on a local or mounted file system."""

import errno
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from orchestrator.storage.store import require_same_bytes


class LocalStore:
    """A local folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.uri = root, str(root)

    def create(self, path: str, data: bytes) -> None:
        """Write a temporary file, sync it, then link it to its name. Nothing is overwritten."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _link(temporary, target)
        except FileExistsError:
            require_same_bytes(self, path, data)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        return (self.root / path).open("rb")

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without those that are being written."""
        try:
            entries = list((self.root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(e.name for e in entries if e.is_file() and not e.name.startswith("."))

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        (self.root / path).unlink(missing_ok=True)


def _link(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK):
            raise
        # No hard links here (FAT, some network mounts): check, then rename.
        if target.exists():
            raise FileExistsError(str(target)) from None
        temporary.rename(target)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
