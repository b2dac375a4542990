"""Finding and opening files, on a local disk or an object store."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import get_protocol, infer_compression

from divergence.errors import InputError, one_line

Format = Literal["parquet", "csv", "jsonl"]
FORMATS: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
UNFINISHED = (".tmp", ".part")
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as listed: `name` is for people, `path` for its file system.

    Rows are read from byte `start` up to `stop`: a text file may grow between two starts of a run.
    """

    fs: fsspec.AbstractFileSystem
    path: str
    name: str
    size: int
    start: int = 0
    stop: int | None = None

    def open(self) -> IO[bytes]:
        """The file's bytes, decompressed; the object can seek."""
        compression = infer_compression(self.path)
        with file_errors(self.name):
            handle: IO[bytes] = self.fs.open(self.path, "rb", compression=compression)
        return handle

    @property
    def suffix(self) -> str:
        """The suffix that names the format, in lower case: .csv of a.CSV.gz."""
        suffixes = PurePosixPath(self.path.lower()).suffixes
        packed = infer_compression(self.path) is not None
        return "".join(suffixes[:-1][-1:] if packed else suffixes[-1:])


def format_of(file: File, given: Format | None) -> Format:
    """The format that is given, else the one of the file's suffix."""
    found = given or FORMATS.get(file.suffix)
    if found is None:
        known = ", ".join(FORMATS)
        raise InputError(
            f"{file.name}: unknown format; use a suffix ({known}) or set source.format"
        )
    return found


def find_files(paths: str | Iterable[str], options: Mapping[str, Any]) -> tuple[File, ...]:
    """The files of these paths, globs and folders, sorted by name. `InputError` if none."""
    every = [paths] if isinstance(paths, str) else paths
    found = {file.name: file for path in every for file in _files_of(path, options)}
    return tuple(found[name] for name in sorted(found))


def list_folder(folder: str, options: Mapping[str, Any]) -> tuple[File, ...]:
    """The files that a folder holds now, sorted by name; perhaps none."""
    fs, root = file_system(folder, options)
    fs.invalidate_cache()
    with file_errors(f"source.path {folder!r}"):
        infos = fs.find(root, detail=True)
    shown = (path for path in sorted(infos) if not _hidden(path, root))
    return tuple(_file(fs, infos[path], folder) for path in shown)


def file_system(path: str, options: Mapping[str, Any]) -> tuple[fsspec.AbstractFileSystem, str]:
    """The file system of this path or URI, and the path in it."""
    try:
        fs, inner = url_to_fs(path, **options)
    except ImportError as error:
        extra = EXTRAS.get(path.partition(":")[0])
        remedy = f"pip install 'holdfast[{extra}]'" if extra else one_line(error)
        raise InputError(f"{path!r} needs a package that is not installed: {remedy}") from error
    except (ValueError, TypeError) as error:
        raise InputError(f"{path!r} cannot be opened: {one_line(error)}") from error
    return fs, inner


def is_local(fs: fsspec.AbstractFileSystem) -> bool:
    """Whether this file system shows files that are still being written."""
    return isinstance(fs, LocalFileSystem)


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Turns every error of a file system into an `InputError` of one line that names the file."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{name} does not exist") from error
    except Exception as error:  # each store has its own exceptions: credentials, endpoints
        raise InputError(f"{name} cannot be read: {one_line(error)}") from error


def options_for(path: str, like: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """A source's options for another path; none if that is on another kind of store."""
    return options if get_protocol(path) == get_protocol(like) else {}


def _files_of(path: str, options: Mapping[str, Any]) -> tuple[File, ...]:
    fs, inner = file_system(path, options)
    with file_errors(f"source.path {path!r}"):
        if any(sign in inner for sign in "*?["):
            infos = fs.glob(inner, detail=True).values()
            files = tuple(_file(fs, i, path) for i in infos if i["type"] == "file")
            files = tuple(f for f in files if not _hidden(f.path, ""))
        elif fs.isdir(inner):
            files = list_folder(path, options)
        else:
            files = (_file(fs, fs.info(inner), path),)
    if not files:
        here = "" if "://" in path or Path(path).is_absolute() else f" in {Path.cwd()}"
        raise InputError(f"source.path {path!r} contains no files{here}")
    return files


def _file(fs: fsspec.AbstractFileSystem, info: Mapping[str, Any], given: str) -> File:
    path = str(info["name"])
    if not is_local(fs):
        name = fs.unstrip_protocol(path)
    else:
        name = path if given.startswith(("/", "file:")) else os.path.relpath(path)
    return File(fs, path, name, int(info["size"] or 0))


def _hidden(path: str, root: str) -> bool:
    """Not data, or not complete: names that start with _ or ., or end in .tmp or .part."""
    inside = PurePosixPath(path[len(root) :] if root else PurePosixPath(path).name)
    return path.endswith(UNFINISHED) or any(p.startswith(("_", ".")) for p in inside.parts)
