"""A published place: a folder or object-store URI that serving processes follow.

    versions/NNNNNNNN.json                       which files the version is made of, sealed
    models/cycle-NNNNNN[.delta]-SHA.safetensors  full models and deltas, each written once

A version is written last and in one step, so that a reader sees it whole or not at all. Versions
count up by one: of two publishers, one is refused. Nothing is ever replaced.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from divergence.errors import InputError
from orchestrator.journal.record import FileRef
from orchestrator.storage.checksummed import CorruptError, dumps, loads
from orchestrator.storage.store import Store, read

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Version:
    """A published champion."""

    number: int
    line: str
    """Whose champion it is: the run's config and seed, hashed, and the arm."""
    cycle: int
    """The cycle that it was trained in."""
    published: str
    """UTC, ISO 8601."""
    files: tuple[FileRef, ...]
    """A full model, then the deltas on it in order, each on the cycle that it names."""


def version_path(number: int) -> str:
    """Where a version stands."""
    return f"versions/{number:08d}.json"


def numbers(store: Store) -> list[int]:
    """The versions that are there, whole or not, oldest first."""
    names = (name.removesuffix(".json") for name in store.names("versions"))
    return sorted(int(name) for name in names if name.isdecimal())


def write_version(store: Store, version: Version) -> None:
    """Publish: from now on this is the newest. Its files are there already."""
    store.create(version_path(version.number), dumps({"schema": SCHEMA} | asdict(version)))


def read_version(store: Store, number: int) -> Version:
    """A version; CorruptError where it is gone, torn or altered."""
    path = version_path(number)
    try:
        body = loads(read(store, path), f"{store.uri}/{path}")
    except FileNotFoundError:
        raise CorruptError(f"{store.uri}/{path}: missing") from None
    version = _version(body, f"{store.uri}/{path}")
    if version.number != number:
        raise CorruptError(f"{store.uri}/{path}: holds version {version.number}")
    return version


def newest_first(store: Store, above: int = -1) -> Iterator[Version | CorruptError]:
    """The versions above a number; in the place of a damaged one, what is wrong with it."""
    for number in reversed([n for n in numbers(store) if n > above]):
        try:
            yield read_version(store, number)
        except CorruptError as fault:
            yield fault


def newest_version(store: Store) -> Version | None:
    """The newest version that is whole; None where there is none."""
    found = (entry for entry in newest_first(store) if isinstance(entry, Version))
    return next(found, None)


def _version(body: Any, name: str) -> Version:
    schema = body.get("schema") if isinstance(body, dict) else None
    if schema != SCHEMA:
        raise InputError(
            f"{name}: schema must be {SCHEMA}, but is {schema}: use the Holdfast that wrote it, "
            "or a newer"
        )
    try:
        fields = {key: value for key, value in body.items() if key != "schema"}
        files = tuple(FileRef(**file) for file in fields.pop("files"))
        return Version(**fields, files=files)
    except (TypeError, KeyError):
        raise CorruptError(f"{name}: is no version of a model") from None
