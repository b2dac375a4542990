"""A published place: a folder or object-store URI that serving processes follow.

    versions/NNNNNNNN.json                       the files of the version, checksummed
    models/cycle-NNNNNN[.delta]-SHA.safetensors  full models and deltas, each written once

A version is written after its files and in one step, so that a reader sees a complete version or
none. Numbers increase by one: if two publishers write the same number, the second is refused. Files
are never replaced.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from divergence.errors import InputError
from orchestrator.journal.record import MAX_FILES, FileRef, Time
from orchestrator.sources.files.mapping.raw import RawMapping
from orchestrator.storage.checksummed import CorruptError, dumps, loads
from orchestrator.storage.store import Store, read
from orchestrator.validation.strict import MAX_INT

SCHEMA = 1
MAX_BYTES = 1 << 24
"""The most that is read of a version."""


@dataclass(frozen=True, slots=True)
class Version:
    """A published champion."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    number: Annotated[int, Field(ge=0, le=MAX_INT)]
    line: str
    """Which run and arm it comes from: a hash of the config and seed, and the arm's name."""
    cycle: Annotated[int, Field(ge=0, le=MAX_INT)]
    """The cycle in which it was trained."""
    published: Time
    """UTC, ISO 8601; of a copy, when the model was first published."""
    files: Annotated[tuple[FileRef, ...], Field(min_length=1, max_length=MAX_FILES)]
    """A full model, then its deltas in order, each relative to the file before it."""
    mapping: RawMapping | None = None
    """How raw values become the model's; None: they are used as they are."""
    copy_of: Annotated[int, Field(ge=0, le=MAX_INT)] | None = None
    """The version that this one repeats, after a rollback or the way forward from it."""
    held: bool = False
    """Whether the place stays at this version: newer champions are not published."""


VERSION = TypeAdapter(Version)


def version_path(number: int) -> str:
    """The path of a version."""
    return f"versions/{number:08d}.json"


def version_numbers(store: Store) -> list[int]:
    """The numbers of all versions, valid or not, oldest first."""
    names = (name.removesuffix(".json") for name in store.names("versions"))
    return sorted(int(name) for name in names if name.isdecimal())


def write_version(store: Store, version: Version) -> None:
    """Make this the newest version. Its files must exist already."""
    body = {"schema": SCHEMA} | asdict(replace(version, mapping=None))
    for name in ("mapping", "copy_of", "held"):  # as versions were written before there were these
        if not body[name]:
            del body[name]
    if version.mapping is not None:
        body["mapping"] = version.mapping.model_dump(mode="json", exclude_defaults=True)
    store.create(version_path(version.number), dumps(body))


def read_version(store: Store, number: int) -> Version:
    """Read a version; CorruptError if it is missing or corrupt."""
    path = version_path(number)
    try:
        body = loads(read(store, path, MAX_BYTES), f"{store.uri}/{path}")
    except FileNotFoundError:
        raise CorruptError(f"{store.uri}/{path}: missing") from None
    version = _version(body, f"{store.uri}/{path}")
    if version.number != number:
        raise CorruptError(f"{store.uri}/{path}: holds version {version.number}")
    return version


def newest_first(store: Store, above: int = -1) -> Iterator[Version | CorruptError]:
    """The versions above a number, newest first; a corrupt one gives its error instead."""
    for number in reversed([n for n in version_numbers(store) if n > above]):
        try:
            yield read_version(store, number)
        except CorruptError as error:
            yield error


def newest_version(store: Store) -> Version | None:
    """The newest valid version; None if there is none."""
    found = (entry for entry in newest_first(store) if isinstance(entry, Version))
    return next(found, None)


def _version(body: Any, name: str) -> Version:
    schema = body.get("schema") if isinstance(body, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"{name}: schema must be {SCHEMA}, but is {schema}: use the version of "
            "Holdfast that wrote it, or a newer one"
        )
    try:
        return VERSION.validate_python({key: body[key] for key in body if key != "schema"})
    except ValidationError:
        raise CorruptError(f"{name}: not a valid version file") from None
