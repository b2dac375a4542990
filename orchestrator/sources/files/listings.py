"""Which files a run has read, so that files added between two starts follow and none is lost.

A *listing* is the files as one start found them. The source writes it to the run folder
(`listed/files-NNNNNN.json`), and the number of its cycles once they are all given. A later start
that finds more makes another listing, which begins at the first cycle that is not trained:

| since the last start | what happens |
|---|---|
| a file was added, or a text file has grown | its rows are read in the cycles that follow |
| cut by minutes, the last cycle was half full | the rest of it is a cycle of its own |
| cut by minutes, rows older than every cycle that is still to come | late: logged and counted |
| a file was replaced, all of whose rows were trained | fails |
| a file was deleted, all of whose rows were trained | nothing: only a replay needs it |
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fsspec.utils import infer_compression

from divergence.errors import InputError, one_line
from orchestrator.sources.files.chunks import write_lines
from orchestrator.sources.files.files import (
    File,
    file_errors,
    format_of,
    is_local,
)
from orchestrator.sources.files.reading import Reading
from orchestrator.sources.files.run_store import MAX_RECORD_BYTES, run_store
from orchestrator.storage.store import CorruptError, read

FOLDER = "listed"
NAME = re.compile(r"files-\d{6,}\.json")
WHOLE_BYTES = 4 << 20
SAMPLES, SAMPLE_BYTES = 16, 64 << 10
"""How many pieces of a larger file are compared, and their size."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """Bytes of a file: from `start` up to `size`, and a checksum of all up to `size`."""

    name: str
    size: int
    digest: str
    start: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """Files, and the cycles they give. `cycles` is None until the last of them was given.

    `begin_us` is when the first cycle starts, if the files are cut by minutes and cycles before
    it came from an earlier listing.
    """

    first_cycle: int
    files: tuple[ListedFile, ...]
    begin_us: int | None = None
    cycles: int | None = None


class Listings:
    """The listings in a run folder."""

    def __init__(self, run_uri: str, options: Mapping[str, Any]) -> None:
        self._run_uri, self._options = run_uri, options

    def read(self) -> list[Listing]:
        """All of them, oldest first."""
        try:
            store = run_store(self._run_uri, self._options)
            paths = [f"{FOLDER}/{name}" for name in store.names(FOLDER) if NAME.fullmatch(name)]
            return [_listing(json.loads(read(store, path, MAX_RECORD_BYTES))) for path in paths]
        except (OSError, ValueError, TypeError, KeyError, RecursionError, CorruptError) as error:
            raise InputError(
                f"{self._run_uri}/{FOLDER} cannot be read: {one_line(error)}"
            ) from error

    def write(self, number: int, listing: Listing) -> None:
        """Write one, replacing it if it is there."""
        path = f"{FOLDER}/files-{number:06d}.json"
        write_lines(self._run_uri, path, [asdict(listing)], self._options)


def _listing(body: Mapping[str, Any]) -> Listing:
    files = tuple(ListedFile(**file) for file in body["files"])
    return Listing(body["first_cycle"], files, body["begin_us"], body["cycles"])


def listed(file: File) -> ListedFile:
    """A file as it is now."""
    return ListedFile(file.name, file.size, digest(file, file.size))


def views(files: Iterable[ListedFile], there: Mapping[str, File], reading: Reading) -> list[File]:
    """The listed bytes of files. One that was changed since is read as it is now."""
    found = []
    for past in files:
        file = there.get(past.name)
        if file is None:
            raise InputError(f"{past.name} was deleted, but not all of its rows were read")
        if _may_grow(file, reading) and has_grown_from(past, file):
            file = replace(file, start=past.start, stop=past.size)
        found.append(file)
    return found


def has_grown_from(past: ListedFile, file: File) -> bool:
    """Whether the file still begins with, or is, what was listed."""
    return file.size >= past.size and digest(file, past.size) == past.digest


def added_since(
    known: Sequence[ListedFile], there: Mapping[str, File], reading: Reading, *, ended: bool
) -> tuple[ListedFile, ...]:
    """New files, and the new ends of text files that have grown.

    `ended`: all rows of the known files were trained, so that none may have been replaced.
    """
    newest = {past.name: past for past in known}
    found = []
    for name, file in there.items():
        past = newest.get(name)
        if past is None:
            found.append(listed(file))
        elif has_grown_from(past, file) and (file.size == past.size or _may_grow(file, reading)):
            if file.size > past.size:
                found.append(replace(listed(file), start=past.size))
        elif ended:
            raise InputError(
                f"{name} was replaced after it was trained: restore it and give new events a file "
                "of their own, or start again with another --out"
            )
    return tuple(found)


def digest(file: File, size: int) -> str:
    """A checksum of the first `size` bytes: of all of them, or of pieces of a large file.

    An object store has one already.
    """
    if not is_local(file.fs) and size == file.size:
        with file_errors(file.name):
            info = file.fs.info(file.path)
        if tag := info.get("ETag") or info.get("etag"):
            return str(tag)
    checksum = hashlib.blake2b(str(size).encode(), digest_size=16)
    with file_errors(file.name), file.fs.open(file.path, "rb") as handle:
        if size <= WHOLE_BYTES:
            checksum.update(handle.read(size))
        else:
            for piece in range(SAMPLES):
                handle.seek(piece * (size - SAMPLE_BYTES) // (SAMPLES - 1))
                checksum.update(handle.read(SAMPLE_BYTES))
    return checksum.hexdigest()


def _may_grow(file: File, reading: Reading) -> bool:
    """Whether more rows can be appended: to texts that are not compressed."""
    packed = infer_compression(file.path) is not None
    return not packed and format_of(file, reading.format) != "parquet"
