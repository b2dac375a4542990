"""Serve an earlier version again, and go forward again.

Versions only ever increase, and serving processes never go back. So a rollback publishes the files
of an earlier version under a new number, and holds the place: champions of the run are not
published until it is released.
"""

from dataclasses import replace

from divergence.errors import InputError
from orchestrator.publish.place import Version, newest_first, newest_version, write_version
from orchestrator.storage.store import Store


def roll_back(place: Store, to: int | None = None) -> Version:
    """Publish an earlier version again, by default the one before the newest, and hold it."""
    newest = _newest(place)
    earlier = [v for v in _originals(place) if v.number < (newest.copy_of or newest.number)]
    if to is not None:
        earlier = [v for v in _originals(place) if v.number == to]
    if not earlier:
        known = ", ".join(str(v.number) for v in _originals(place)) or "none"
        wanted = "earlier version" if to is None else f"version {to}"
        raise InputError(f"{place.uri}: there is no {wanted}; the place has {known}")
    return _again(place, newest, earlier[0], held=True)


def go_forward(place: Store) -> Version:
    """Publish the newest version of a run again, and let the run publish."""
    newest = _newest(place)
    if not newest.held:
        raise InputError(f"{place.uri}: is not held: it serves the newest version, {newest.number}")
    return _again(place, newest, _originals(place)[0], held=False)


def _newest(place: Store) -> Version:
    newest = newest_version(place)
    if newest is None:
        raise InputError(f"{place.uri}: not a published place: it has no versions")
    return newest


def _originals(place: Store) -> list[Version]:
    """The valid versions that a run published and whose files are still there, newest first."""
    files = {f"models/{name}" for name in place.names("models")}
    found = (entry for entry in newest_first(place) if isinstance(entry, Version))
    return [v for v in found if v.copy_of is None and all(f.path in files for f in v.files)]


def _again(place: Store, newest: Version, version: Version, *, held: bool) -> Version:
    """The same model under a new number. `published` stays: it says how old the model is."""
    made = replace(version, number=newest.number + 1, copy_of=version.number, held=held)
    write_version(place, made)
    return made
