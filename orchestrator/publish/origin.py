"""Where served models come from: a published place, or straight from a run's folder."""

from collections.abc import Iterator
from typing import Protocol

from divergence.errors import InputError
from orchestrator.config.schema import published_arm
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.journal.run_folder import CONFIG, run_config
from orchestrator.publish.place import Version, newest_first, numbers
from orchestrator.publish.publisher import champion_cycle, check_sound
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store

LOOK_BACK = 8
"""Cycles of a run that are looked at where the newest are torn."""


class Origin(Protocol):
    """Versions of a model that follow one another."""

    store: Store

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """Those above a number, newest first; in the place of a damaged one, what is wrong."""
        ...


class PlaceOrigin:
    """The versions of a published place."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """Those above a number, newest first."""
        return newest_first(self.store, number)


class RunOrigin:
    """A run's committed champions of one arm; a version's number is its cycle."""

    def __init__(self, store: Store, arm: str | None) -> None:
        """The arm's name is checked; None: the one that the run publishes, else its first."""
        config = run_config(store)
        names = [a.name for a in config.arms]
        if arm is not None and arm not in names:
            raise InputError(f"--arm {arm}: must be one of {', '.join(names)}")
        self.store, self.arm = store, arm or published_arm(config)
        self._tau = config.model.tau

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """Those above a number, newest first."""
        cycles = [cycle for cycle in cycles_of(self.store, self.arm) if cycle > number]
        for cycle in reversed(cycles[-LOOK_BACK:]):
            try:
                record = read_record(self.store, self.arm, cycle)
                if record.model:
                    check_sound(record, self._tau)
                    yield self._version(record)
            except (CorruptError, InputError) as fault:
                yield CorruptError(str(fault))

    def _version(self, record: CycleRecord) -> Version:
        line = f"{record.config_hash[:16]}/{self.arm}"
        return Version(record.cycle, line, champion_cycle(record), record.started, record.model)


def open_origin(uri: str, arm: str | None = None) -> Origin:
    """What is at this path or URI: a published place or a run."""
    store = open_store(uri)
    if CONFIG in store.names(""):
        return RunOrigin(store, arm)
    if not numbers(store):
        raise InputError(
            f"{uri}: is neither a run (it has no {CONFIG}) nor a published place (it has no "
            "versions yet)"
        )
    if arm is not None:
        raise InputError(f"--arm {arm}: {uri} is a published place, which holds one arm alone")
    return PlaceOrigin(store)
