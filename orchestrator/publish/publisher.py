"""Publish the champion of a committed cycle as a version.

A champion is published only if it was retained, every entry of its vectors is below tau, its files
match their checksums in the journal, and it is newer than the newest version.
"""

import hashlib
import math
import re
from datetime import UTC, datetime
from pathlib import Path

from divergence.errors import InputError
from orchestrator.config.schema import (
    PublishConfig,
    RunConfig,
    config_hash,
    feature_spec,
    published_arm,
)
from orchestrator.journal.models import read_model, served_config
from orchestrator.journal.record import CorruptError, CycleRecord, FileRef
from orchestrator.journal.run_folder import CONFIG, run_config
from orchestrator.publish.place import (
    Version,
    newest_version,
    read_version,
    version_numbers,
    version_path,
    write_version,
)
from orchestrator.sources.files.mapping.raw import RawMapping, raw_mapping
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store, read
from trainer.modelfile import save_model

MODEL_FILE = re.compile(r"cycle-\d{6}(\.delta)?-[0-9a-f]{12}\.safetensors")
"""The names of published model files; other files are never deleted."""


class Publisher:
    """Publishes the champions of one arm of a run, in order."""

    def __init__(
        self,
        config: RunConfig,
        run: Store,
        place: Store,
        options: PublishConfig,
        take_over: bool = False,
    ) -> None:
        """InputError if the place holds the models of another run, unless `take_over`."""
        self._config, self._run, self._place, self._options = config, run, place, options
        if run.uri.rstrip("/") == place.uri.rstrip("/"):
            raise InputError(f"{place.uri}: is the run folder itself: publish to another place")
        self.arm = options.arm or published_arm(config)
        self.line = f"{config_hash(config)[:16]}/{self.arm}"
        newest = newest_version(place)
        self._owner = self.line if newest is None else newest.line
        if self._owner != self.line and not take_over:
            raise InputError(
                f"{place.uri}: holds the models of {_named(self._owner, run)}, not of "
                f"{_named(self.line, run)}: publish to "
                "another place, or take over once with: "
                f"holdfast publish {run.uri} {place.uri} --arm {self.arm} --take-over"
            )
        for folder in ("models", "versions"):  # what a killed publisher was writing
            place.delete_temporary(folder)

    def publish(self, record: CycleRecord) -> Version | None:
        """Publish the champion of a committed cycle; None if the place has it or a newer one."""
        if not record.model or self._is_published(record):
            return None
        check_within_bounds(record, self._config.model.tau)
        files = self._copy_files(record) if self._options.deltas else (self._write_full(record),)
        number = max(version_numbers(self._place), default=0) + 1
        mapping = mapping_of(self._config)
        version = Version(number, self.line, champion_cycle(record), _now(), files, mapping)
        write_version(self._place, version)
        self._owner = self.line
        self._prune(number)
        return version

    def _is_published(self, record: CycleRecord) -> bool:
        newest = newest_version(self._place)
        if newest is None:
            return False
        if newest.held:
            raise InputError(
                f"{self._place.uri}: is held at version {newest.copy_of} since a rollback; to go "
                f"on: holdfast rollback {self._place.uri} --forward"
            )
        if newest.line != self._owner:
            raise InputError(
                f"{self._place.uri}: another run or arm ({newest.line}) has taken over this place"
            )
        complete = {file.path for file in newest.files} <= {
            f"models/{name}" for name in self._place.names("models")
        }
        return complete and newest.line == self.line and champion_cycle(record) <= newest.cycle

    def _copy_files(self, record: CycleRecord) -> tuple[FileRef, ...]:
        """Copy the run's full model and deltas, except those that were copied before."""
        existing = set(self._place.names("models"))
        return tuple(self._copy_file(file, existing) for file in record.model)

    def _copy_file(self, file: FileRef, existing: set[str]) -> FileRef:
        name = published_name(file)
        if name not in existing:
            self._place.create(f"models/{name}", read_verified(self._run, file))
        return FileRef(f"models/{name}", file.sha256, file.size)

    def _write_full(self, record: CycleRecord) -> FileRef:
        """Write the champion as one full model, the same bits as its full model and deltas."""
        for file in record.model:
            read_verified(self._run, file)
        spec = resolve_spec(self._config.source, feature_spec(self._config.features))
        data = save_model(read_model(self._run, record.model, served_config(self._config, spec)))
        file = FileRef(record.model[-1].path, hashlib.sha256(data).hexdigest(), len(data))
        name = published_name(file).replace(".delta", "")
        self._place.create(f"models/{name}", data)
        return FileRef(f"models/{name}", file.sha256, file.size)

    def _prune(self, newest: int) -> None:
        """Delete versions beyond `keep_last`, then the files that no kept version needs."""
        existing = version_numbers(self._place)
        for number in existing:
            if number <= newest - self._options.keep_last:
                self._place.delete(version_path(number))
        used: set[str] = set()
        for number in (n for n in existing if n > newest - self._options.keep_last):
            try:
                used |= {file.path for file in read_version(self._place, number).files}
            except CorruptError:
                return  # its files are unknown: delete nothing
        for name in self._place.names("models"):
            if MODEL_FILE.fullmatch(name) and f"models/{name}" not in used:
                self._place.delete(f"models/{name}")


def mapping_of(config: RunConfig) -> RawMapping | None:
    """How raw values become those of a run's models."""
    spec = resolve_spec(config.source, feature_spec(config.features))
    return raw_mapping(config.source.reading, spec)


def check_within_bounds(record: CycleRecord, tau: float) -> None:
    """InputError if a champion's vectors are not finite and below tau."""
    norms = record.norms
    if norms is None or not (math.isfinite(norms.max_msqr) and norms.max_inf < tau):
        largest = "unknown" if norms is None else f"{norms.max_inf:g}"
        raise InputError(
            f"{record.arm}, cycle {record.cycle}: not published: its largest entry must be below "
            f"tau = {tau:g}, but is {largest}"
        )


def read_verified(store: Store, file: FileRef) -> bytes:
    """Read a file; InputError if it is missing or does not match its checksum."""
    try:
        data = read(store, file.path, file.size)
    except FileNotFoundError:
        raise InputError(f"{store.uri}/{file.path}: missing") from None
    except CorruptError as error:
        raise InputError(f"{store.uri}/{error}") from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise InputError(f"{store.uri}/{file.path}: corrupt: its checksum does not match")
    return data


def published_name(file: FileRef) -> str:
    """The name of a file in a place. Files with different bytes have different names."""
    name = file.path.rpartition("/")[2].removesuffix(".safetensors")
    return f"{name}-{file.sha256[:12]}.safetensors"


def champion_cycle(record: CycleRecord) -> int:
    """The cycle that trained the champion: an earlier one if this cycle retained no instance."""
    digits = record.model[-1].path.rpartition("/")[2].removeprefix("cycle-").split(".")[0]
    return int(digits)


def _named(line: str, run: Store) -> str:
    """A run and arm as a place records it, and the run's folder if it is this run or beside it."""
    beside = [] if "://" in run.uri else sorted(Path(run.uri).parent.glob(f"*/{CONFIG}"))
    for folder in (run.uri, *(str(path.parent) for path in beside)):
        try:
            known = config_hash(run_config(open_store(folder)))
        except InputError:
            continue
        if line.startswith(f"{known[:16]}/"):
            return f"{line} ({folder})"
    return line


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
