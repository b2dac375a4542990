"""Where served models come from: a published place, or a run folder."""

from collections.abc import Iterator
from typing import Protocol

from divergence.errors import InputError
from orchestrator.config.schema import published_arm
from orchestrator.config.trainer_checks import require_offset
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.models import served_text
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.journal.run_folder import CONFIG, run_config
from orchestrator.publish.place import Version, newest_first, version_numbers
from orchestrator.publish.publisher import champion_cycle, check_within_bounds, mapping_of
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store

MAX_CYCLES_BACK = 8
"""How many of the newest cycles of a run are tried if some are corrupt."""


class Origin(Protocol):
    """A sequence of versions of a model."""

    store: Store

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """The versions above a number, newest first; a corrupt one gives its error instead."""
        ...

    def described(self, version: Version) -> str:
        """A version of this origin, in words."""
        ...


class PlaceOrigin:
    """The versions of a published place."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """The versions above a number, newest first."""
        return newest_first(self.store, number)

    def described(self, version: Version) -> str:
        """Its number and cycle."""
        return f"version {version.number} (cycle {version.cycle})"


class RunOrigin:
    """A run's committed champions of one arm; a version's number is its cycle."""

    def __init__(self, store: Store, arm: str | None) -> None:
        """InputError if there is no such arm. None: the arm that is published by default."""
        config = run_config(store)
        require_offset(config, "serving and exporting vectors")
        names = [a.name for a in config.arms]
        if arm is not None and arm not in names:
            raise InputError(f"--arm {arm}: must be one of {', '.join(names)}")
        self.store, self.arm = store, arm or published_arm(config)
        self._config, self._chosen = config, arm
        self._tau, self._mapping = config.model.tau, mapping_of(config)

    def newer(self, number: int) -> Iterator[Version | CorruptError]:
        """The versions above a number, newest first."""
        cycles = [cycle for cycle in cycles_of(self.store, self.arm) if cycle > number]
        for cycle in reversed(cycles[-MAX_CYCLES_BACK:]):
            try:
                record = read_record(self.store, self.arm, cycle)
                if record.model:
                    check_within_bounds(record, self._tau)
                    yield self._version(record)
            except (CorruptError, InputError) as error:
                yield CorruptError(str(error))

    def described(self, version: Version) -> str:
        """The arm and the cycle, and the lines if it is their mean."""
        record = read_record(self.store, self.arm, version.number)
        return served_text(record, self._config, self._chosen)

    def _version(self, record: CycleRecord) -> Version:
        line = f"{record.config_hash[:16]}/{self.arm}"
        cycle, files = champion_cycle(record), record.model
        return Version(record.cycle, line, cycle, record.started, files, self._mapping)


def open_origin(uri: str, arm: str | None = None) -> Origin:
    """Open the published place or the run at a path or URI."""
    store = open_store(uri)
    if CONFIG in store.names(""):
        return RunOrigin(store, arm)
    if not version_numbers(store):
        raise InputError(
            f"{uri}: neither a run folder (it has no {CONFIG}) nor a published place (it has no "
            "versions)"
        )
    if arm is not None:
        raise InputError(
            f"--arm {arm}: {uri} is a published place, which holds a single arm: omit --arm"
        )
    return PlaceOrigin(store)
