"""A store on a local or mounted file system.

The folder may come from a stranger: nothing outside it is read or written, whatever its symbolic
links say, and only regular files are opened.
"""

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from orchestrator.storage.store import CorruptError, require_same_bytes

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{16}")


class LocalStore:
    """A local folder."""

    def __init__(self, root: Path) -> None:
        self.root, self.uri = root, str(root)

    def create(self, path: str, data: bytes) -> None:
        """Write a temporary file, sync it, then link it to its name. Nothing is overwritten."""
        target = inside(self.root, path)
        with naming(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = temporary_path(target)
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
        """Open a regular file for reading."""
        return open_regular(inside(self.root, path), path)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, without those that are being written."""
        return [name for name in self._all_names(folder) if not name.startswith(".")]

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        inside(self.root, path).unlink(missing_ok=True)

    def delete_temporary(self, folder: str, prefix: str = "") -> None:
        """Delete the temporary files of `create` in a folder, of names with this prefix."""
        for name in self._all_names(folder):
            if TEMPORARY.fullmatch(name) and name.startswith(f".{prefix}"):
                self.delete(f"{folder}/{name}" if folder else name)

    def _all_names(self, folder: str) -> list[str]:
        try:
            entries = list(folder_inside(self.root, folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entry.name for entry in entries if not entry.is_dir())


def inside(root: Path, path: str) -> Path:
    """The file at a relative path; CorruptError if its folder is not in `root`."""
    folder, _, name = path.rpartition("/")
    if name in ("", ".", ".."):
        raise CorruptError(f"{path}: must be a file inside {root}")
    return folder_inside(root, folder) / name


def folder_inside(root: Path, folder: str) -> Path:
    """A folder at a relative path; CorruptError if "..", "/" or a link leads out of `root`."""
    try:
        found = (root / folder).resolve()
        if found.is_relative_to(root.resolve()):
            return found
    except (RuntimeError, ValueError):  # links that form a loop; a NUL
        pass
    raise CorruptError(f"{folder or root}: must be a folder inside {root}, but leads elsewhere")


def open_regular(target: Path, name: str) -> BinaryIO:
    """Open a file for reading; CorruptError if it is a link to elsewhere, a device or a pipe."""
    try:
        handle = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EMLINK):
            raise
        raise CorruptError(f"{name}: corrupt: must be a regular file") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise CorruptError(f"{name}: corrupt: must be a regular file")
    return os.fdopen(handle, "rb")


def temporary_path(target: Path) -> Path:
    """Where to write a file before it gets its name."""
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}")


@contextmanager
def naming(target: Path) -> Iterator[None]:
    """Make an error in this block name the file: "No space left on device" does not."""
    try:
        yield
    except OSError as error:
        error.filename = str(target)
        del error.filename2  # None would be shown: 'name' -> None
        raise


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
