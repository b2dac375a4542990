"""The committed cycles of a run, in its folder.

A cycle is committed when every arm that takes part in it has a valid record of it, all by the same
driver. Records are written in the order of the arms: of two drivers on one folder, the one that
comes second to the first arm's record is refused there and has written nothing of that cycle.
Resume is from the newest committed cycle; whatever stands after it is set aside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.journal.record import CycleRecord, DamagedError, FileRef, decode, encode
from orchestrator.storage.store import Store, read, sha256_of


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed cycle (-1: there is none), its records by arm, and what is newer but not whole.

    `passed_over` has a line for each torn, altered or missing record or model.
    """

    cycle: int
    records: Mapping[str, CycleRecord]
    passed_over: tuple[str, ...]


def record_path(arm: str, cycle: int) -> str:
    """Where a record stands."""
    return f"journal/{arm}/cycle-{cycle:06d}.json"


def model_path(arm: str, cycle: int, delta: bool = False) -> str:
    """Where a model stands: a full one, or the delta of one cycle."""
    return f"models/{arm}/cycle-{cycle:06d}{'.delta' if delta else ''}.safetensors"


def commit(store: Store, records: Iterable[CycleRecord]) -> None:
    """Write a cycle's records, in the order of the arms. Their models are there already."""
    for record in records:
        store.create(record_path(record.arm, record.cycle), encode(record))


def cycles_of(store: Store, arm: str) -> list[int]:
    """The cycles of which the arm has a record, valid or not."""
    numbers = (_cycle_in(name) for name in store.names(f"journal/{arm}"))
    return sorted(number for number in numbers if number is not None)


def read_record(store: Store, arm: str, cycle: int) -> CycleRecord:
    """A record; DamagedError where it is not there, not whole, or not of this arm and cycle."""
    path = record_path(arm, cycle)
    try:
        record = decode(read(store, path), path)
    except FileNotFoundError:
        raise DamagedError(f"{path}: missing") from None
    if (record.arm, record.cycle) != (arm, cycle):
        raise DamagedError(f"{path}: holds {record_path(record.arm, record.cycle)}")
    return record


def records_of(store: Store, arm: str) -> Iterator[CycleRecord | DamagedError]:
    """All records of an arm, oldest first; in the place of a damaged one, what is wrong with it."""
    for cycle in cycles_of(store, arm):
        try:
            yield read_record(store, arm, cycle)
        except DamagedError as fault:
            yield fault


def check_files(store: Store, files: Sequence[FileRef], known: dict[str, str]) -> None:
    """Compare files with their checksums; DamagedError names the first that is gone or altered.

    `known` keeps what has been read, so that a base of many deltas is read once.
    """
    for file in files:
        try:
            if file.path not in known:
                known[file.path] = sha256_of(store, file.path)
        except FileNotFoundError:
            raise DamagedError(f"{file.path}: missing") from None
        if known[file.path] != file.sha256:
            raise DamagedError(f"{file.path}: torn or altered: its checksum does not match")


def newest_committed(store: Store, arms: Mapping[str, int]) -> Committed:
    """The newest cycle that all its arms have committed; `arms` gives each arm's first cycle.

    Walks back over what is damaged or unfinished, newest first.
    """
    cycles = sorted({c for arm in arms for c in cycles_of(store, arm)}, reverse=True)
    passed: list[str] = []
    known: dict[str, str] = {}
    for cycle in cycles:
        records, faults = {}, []
        for arm in (arm for arm, first in arms.items() if first <= cycle):
            try:
                record = read_record(store, arm, cycle)
                check_files(store, record.model, known)
                records[arm] = record
            except DamagedError as fault:
                faults.append(str(fault))
        if len({record.driver for record in records.values()}) > 1:
            faults.append(f"cycle {cycle}: its records are of two drivers")
        if not faults:
            return Committed(cycle, records, tuple(passed))
        passed += faults
    return Committed(-1, {}, tuple(passed))


def set_aside_after(store: Store, arms: Iterable[str], cycle: int) -> list[str]:
    """Clear the way for the cycles after `cycle`: the paths of the records that stood there.

    Records are kept under set-aside/, models (which are only bytes without a record) deleted.
    """
    moved = []
    for arm in reversed(list(arms)):
        for name in store.names(f"models/{arm}"):
            number = _cycle_in(name)
            if number is not None and number > cycle:
                store.delete(f"models/{arm}/{name}")
        for number in reversed(cycles_of(store, arm)):
            if number > cycle:
                path = record_path(arm, number)
                _keep_copy(store, path)
                store.delete(path)
                moved.append(path)
    return moved


def expendable(
    names: Iterable[str], newest: int, keep_last: int, keep_every: int | None
) -> list[str]:
    """Of an arm's model files, by name, those that no kept cycle is made of.

    Kept are the last `keep_last` cycles up to `newest`, and every `keep_every`-th. A cycle's model
    is the newest full one up to it and all deltas since, so that a file is part of every cycle
    from its own to the one before the next full model.
    """
    files = sorted((n, name) for name in names if (n := _cycle_in(name)) is not None)
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


def _keep_copy(store: Store, path: str) -> None:
    data = read(store, path)
    folder, _, name = path.rpartition("/")
    taken = [other for other in store.names(f"set-aside/{folder}") if other.startswith(name)]
    store.create(f"set-aside/{path}.{len(taken)}", data)


def _cycle_in(name: str) -> int | None:
    digits = name.removeprefix("cycle-").split(".")[0]
    return int(digits) if name.startswith("cycle-") and digits.isdecimal() else None
