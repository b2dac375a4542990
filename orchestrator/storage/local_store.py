"""A store on a local file system, or on one that this machine mounts."""

import errno
import os
import secrets
from pathlib import Path
from typing import BinaryIO

from orchestrator.storage.store import must_hold


class LocalStore:
    """A local folder."""

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
