"""The committed cycles of a run.

A cycle is committed when every arm that trains in it has a valid record of it, and one driver wrote
all of them. Records are written in the order of the arms: if two drivers write to one folder, the
second is refused at the first arm's record and has written nothing of that cycle. A run resumes
after the newest committed cycle; newer records are set aside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.journal.record import (
    CorruptError,
    CycleRecord,
    FileRef,
    decode,
    encode,
    files_of,
)
from orchestrator.storage.store import Store, read, sha256_of


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed cycle (-1 if there is none) and its records by arm.

    `skipped` says why newer cycles cannot be used: a line for each corrupt or missing file.
    """

    cycle: int
    records: Mapping[str, CycleRecord]
    skipped: tuple[str, ...]


def record_path(arm: str, cycle: int) -> str:
    """The path of a record."""
    return f"journal/{arm}/cycle-{cycle:06d}.json"


def model_path(arm: str, cycle: int, delta: bool = False) -> str:
    """The path of a full model, or of the delta of one cycle."""
    return f"models/{arm}/cycle-{cycle:06d}{'.delta' if delta else ''}.safetensors"


def line_path(arm: str, cycle: int, line: int | None) -> str:
    """The path of the snapshot of a line after a cycle; None: of the champion, for all lines.

    Before cycle 0 that is the champion of another run that the arm started from.
    """
    if cycle < 0:
        return f"lines/{arm}/started.safetensors"
    name = "champion" if line is None else f"line-{line}"
    return f"lines/{arm}/cycle-{cycle:06d}-{name}.safetensors"


def commit(store: Store, records: Iterable[CycleRecord]) -> None:
    """Write a cycle's records, in the order of the arms. Their models must exist already."""
    for record in records:
        store.create(record_path(record.arm, record.cycle), encode(record))


def cycles_of(store: Store, arm: str) -> list[int]:
    """The cycles for which the arm has a record, valid or not."""
    numbers = (_cycle_number(name) for name in store.names(f"journal/{arm}"))
    return sorted(number for number in numbers if number is not None)


def read_record(store: Store, arm: str, cycle: int) -> CycleRecord:
    """Read a record; CorruptError if it is missing, corrupt, or of another arm or cycle."""
    path = record_path(arm, cycle)
    try:
        record = decode(read(store, path), path)
    except FileNotFoundError:
        raise CorruptError(f"{path}: missing") from None
    if (record.arm, record.cycle) != (arm, cycle):
        raise CorruptError(f"{path}: holds {record_path(record.arm, record.cycle)}")
    return record


def records_of(store: Store, arm: str) -> Iterator[CycleRecord | CorruptError]:
    """All records of an arm, oldest first; a corrupt one gives its error instead."""
    for cycle in cycles_of(store, arm):
        try:
            yield read_record(store, arm, cycle)
        except CorruptError as error:
            yield error


def check_files(store: Store, files: Sequence[FileRef], checksums: dict[str, str]) -> None:
    """Compare files with their checksums; CorruptError names the first that does not match.

    `checksums` caches those computed so far: a full model with many deltas is read once.
    """
    for file in files:
        try:
            if file.path not in checksums:
                checksums[file.path] = sha256_of(store, file.path, file.size)
        except FileNotFoundError:
            raise CorruptError(f"{file.path}: missing") from None
        if checksums[file.path] != file.sha256:
            raise CorruptError(f"{file.path}: corrupt: its checksum does not match")


def newest_committed(store: Store, arms: Mapping[str, int]) -> Committed:
    """The newest committed cycle; `arms` gives each arm's first cycle.

    Corrupt and incomplete cycles are skipped, newest first.
    """
    cycles = sorted({c for arm in arms for c in cycles_of(store, arm)}, reverse=True)
    skipped: list[str] = []
    checksums: dict[str, str] = {}
    for cycle in cycles:
        records, faults = {}, []
        for arm in (arm for arm, first in arms.items() if first <= cycle):
            try:
                record = read_record(store, arm, cycle)
                check_files(store, files_of(record), checksums)
                records[arm] = record
            except CorruptError as error:
                faults.append(str(error))
        if len({record.driver for record in records.values()}) > 1:
            faults.append(f"cycle {cycle}: two drivers wrote its records")
        if not faults:
            return Committed(cycle, records, tuple(skipped))
        skipped += faults
    return Committed(-1, {}, tuple(skipped))


def set_aside_uncommitted(store: Store, arms: Iterable[str], cycle: int) -> list[str]:
    """Remove everything after the committed `cycle`; returns the paths of the moved records.

    Records move to set-aside/. Models are deleted: without a record nothing refers to them.
    """
    moved = []
    for arm in reversed(list(arms)):
        for folder in (f"models/{arm}", f"lines/{arm}"):
            for name in store.names(folder):
                number = _cycle_number(name)
                if number is not None and number > cycle:
                    store.delete(f"{folder}/{name}")
        for number in reversed(cycles_of(store, arm)):
            if number > cycle:
                path = record_path(arm, number)
                _copy_to_set_aside(store, path)
                store.delete(path)
                moved.append(path)
    return moved


def unneeded_models(
    names: Iterable[str], newest: int, keep_last: int, keep_every: int | None
) -> list[str]:
    """The names among an arm's model files that no kept cycle needs.

    The last `keep_last` cycles up to `newest` are kept, and every `keep_every`-th. A cycle's model
    is the newest full model up to it and all deltas since. So each file is needed by every cycle
    from its own to the one before the next full model.
    """
    files = sorted((n, name) for name in names if (n := _cycle_number(name)) is not None)
    found = []
    last = newest
    for number, name in reversed(files):
        if number > newest:
            continue
        landmark = keep_every is not None and last // keep_every * keep_every >= number
        if last <= newest - keep_last and not landmark:
            found.append(name)
        if ".delta." not in name:
            last = number - 1
    return sorted(found)


def _copy_to_set_aside(store: Store, path: str) -> None:
    data = read(store, path)
    folder, _, name = path.rpartition("/")
    taken = [other for other in store.names(f"set-aside/{folder}") if other.startswith(name)]
    store.create(f"set-aside/{path}.{len(taken)}", data)


def _cycle_number(name: str) -> int | None:
    digits = name.removeprefix("cycle-").split(".")[0].split("-")[0]
    return int(digits) if name.startswith("cycle-") and digits.isdecimal() else None
