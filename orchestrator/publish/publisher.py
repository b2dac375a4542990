"""From a committed cycle to a published version.

Published is only what can be answered for: a champion that was retained, whose every entry lies
within tau, whose files have the bytes that the journal vouches for, and that is newer than what is
there.
"""

import hashlib
import math
import re
from datetime import UTC, datetime

from divergence.errors import InputError
from orchestrator.config.schema import (
    PublishConfig,
    RunConfig,
    config_hash,
    feature_spec,
    published_arm,
)
from orchestrator.journal.models import model_config, read_model
from orchestrator.journal.record import CorruptError, CycleRecord, FileRef
from orchestrator.publish.place import (
    Version,
    newest_version,
    numbers,
    read_version,
    version_path,
    write_version,
)
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.store import Store, read
from trainer.modelfile import save_model

OURS = re.compile(r"cycle-\d{6}(\.delta)?-[0-9a-f]{12}\.safetensors")
"""The names of the files that a place has from us; others are none of our business."""


class Publisher:
    """Publishes one arm's champions of a run, in order."""

    def __init__(
        self,
        config: RunConfig,
        run: Store,
        place: Store,
        terms: PublishConfig,
        take_over: bool = False,
    ) -> None:
        """Refused where the place holds another run's models, unless this one is to take over."""
        self._config, self._run, self._place, self._terms = config, run, place, terms
        if run.uri.rstrip("/") == place.uri.rstrip("/"):
            raise InputError(f"{place.uri}: is the run's own folder: publish to another place")
        self.arm = terms.arm or published_arm(config)
        self.line = f"{config_hash(config)[:16]}/{self.arm}"
        newest = newest_version(place)
        self._owner = self.line if newest is None else newest.line
        if self._owner != self.line and not take_over:
            raise InputError(
                f"{place.uri}: holds the models of {self._owner}, not of {self.line}: publish to "
                "another place, or take over once with: "
                f"holdfast publish {run.uri} {place.uri} --arm {self.arm} --take-over"
            )

    def publish(self, record: CycleRecord) -> Version | None:
        """Publish the champion of a committed cycle; None where the place has it, or a newer."""
        if not record.model or self._has(record):
            return None
        check_sound(record, self._config.model.tau)
        files = self._chain(record) if self._terms.deltas else (self._whole(record),)
        number = max(numbers(self._place), default=0) + 1
        version = Version(number, self.line, champion_cycle(record), _now(), files)
        write_version(self._place, version)
        self._owner = self.line
        self._clear_out(number)
        return version

    def _has(self, record: CycleRecord) -> bool:
        newest = newest_version(self._place)
        if newest is None:
            return False
        if newest.line != self._owner:
            raise InputError(f"{self._place.uri}: another run or arm ({newest.line}) took it over")
        whole = {file.path for file in newest.files} <= {
            f"models/{name}" for name in self._place.names("models")
        }
        return whole and newest.line == self.line and champion_cycle(record) <= newest.cycle

    def _chain(self, record: CycleRecord) -> tuple[FileRef, ...]:
        """The run's own full model and deltas; only those that are new are copied."""
        there = set(self._place.names("models"))
        return tuple(self._copied(file, there) for file in record.model)

    def _copied(self, file: FileRef, there: set[str]) -> FileRef:
        name = published_name(file)
        if name not in there:
            self._place.create(f"models/{name}", sound_bytes(self._run, file))
        return FileRef(f"models/{name}", file.sha256, file.size)

    def _whole(self, record: CycleRecord) -> FileRef:
        """One full model, the same bits as the chain."""
        for file in record.model:
            sound_bytes(self._run, file)
        spec = resolve_spec(self._config.source, feature_spec(self._config.features))
        data = save_model(read_model(self._run, record.model, model_config(self._config, spec)))
        file = FileRef(record.model[-1].path, hashlib.sha256(data).hexdigest(), len(data))
        name = published_name(file).replace(".delta", "")
        self._place.create(f"models/{name}", data)
        return FileRef(f"models/{name}", file.sha256, file.size)

    def _clear_out(self, newest: int) -> None:
        """Drop versions beyond `keep_last`, then the files that no kept one is made of."""
        there = numbers(self._place)
        for number in there:
            if number <= newest - self._terms.keep_last:
                self._place.delete(version_path(number))
        used: set[str] = set()
        for number in (n for n in there if n > newest - self._terms.keep_last):
            try:
                used |= {file.path for file in read_version(self._place, number).files}
            except CorruptError:
                return  # it cannot be told what it needs: leave everything
        for name in self._place.names("models"):
            if OURS.fullmatch(name) and f"models/{name}" not in used:
                self._place.delete(f"models/{name}")


def check_sound(record: CycleRecord, tau: float) -> None:
    """InputError where a champion's vectors are not within bounds."""
    norms = record.norms
    if norms is None or not (math.isfinite(norms.max_msqr) and norms.max_inf < tau):
        told = "unknown" if norms is None else f"{norms.max_inf:g}"
        raise InputError(
            f"{record.arm}, cycle {record.cycle}: not published: its largest entry must be below "
            f"tau = {tau:g}, but is {told}"
        )


def sound_bytes(store: Store, file: FileRef) -> bytes:
    """A file's bytes; InputError where they are not those that its checksum vouches for."""
    try:
        data = read(store, file.path)
    except FileNotFoundError:
        raise InputError(f"{store.uri}/{file.path}: missing") from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise InputError(f"{store.uri}/{file.path}: torn or altered: its checksum does not match")
    return data


def published_name(file: FileRef) -> str:
    """A file's name in a place: no two files of different bytes share one."""
    name = file.path.rpartition("/")[2].removesuffix(".safetensors")
    return f"{name}-{file.sha256[:12]}.safetensors"


def champion_cycle(record: CycleRecord) -> int:
    """The cycle that the champion was trained in: where none is retained, an earlier one."""
    digits = record.model[-1].path.rpartition("/")[2].removeprefix("cycle-").split(".")[0]
    return int(digits)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
