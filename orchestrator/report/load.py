"""Reads runs from their journals, at any time, also while they are running."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.journal.run_folder import run_config
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store

READERS = 16
"""Records read in parallel: an object store takes some milliseconds to answer each request."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run: all readable records, oldest first, and a line for each unreadable one."""

    name: str
    uri: str
    config: RunConfig
    records: Mapping[str, tuple[CycleRecord, ...]]
    """By arm, in the order of the config; an arm may have none."""
    faults: tuple[str, ...]

    @property
    def sustained(self) -> bool:
        """Whether its arms keep their settings instead of searching."""
        return all(arm.family is not None for arm in self.config.arms)

    @property
    def cycles(self) -> int:
        """How many cycles have a readable record of at least one arm."""
        return len({record.cycle for records in self.records.values() for record in records})


@dataclass(frozen=True, slots=True)
class Loaded:
    """The readable runs, and the reasons why the others could not be read."""

    runs: tuple[Run, ...]
    refused: tuple[str, ...]


def load_runs(uris: Sequence[str], known: Sequence[Run] = ()) -> Loaded:
    """Read every run; InputError with all reasons if none can be read.

    The records of `known` runs, read before, are kept.
    """
    runs, refused = [], []
    before = {run.uri: run for run in known}
    unique = list(dict.fromkeys(absolute(uri) for uri in uris))
    for uri, name in zip(unique, short_names(unique), strict=True):
        try:
            store = open_store(uri)
            runs.append(load_run(store, name, before.get(store.uri)))
        except InputError as error:
            refused.append(str(error))
    if not runs:
        raise InputError("\n".join(refused))
    return Loaded(tuple(runs), tuple(refused))


def load_run(store: Store, name: str, known: Run | None = None) -> Run:
    """A run's config and all its records; those of `known`, read before, are kept."""
    config = run_config(store)
    old = known.records.values() if known else ()
    read: dict[tuple[str, int], CycleRecord | str] = {
        (record.arm, record.cycle): record for records in old for record in records
    }
    records: dict[str, tuple[CycleRecord, ...]] = {}
    faults: list[str] = []
    # Reading a local folder is all decoding, which threads would only slow down.
    with ThreadPoolExecutor(1 if isinstance(store, LocalStore) else READERS) as readers:
        for arm in (arm.name for arm in config.arms):
            cycles = cycles_of(store, arm)
            new = [(store, arm, cycle) for cycle in cycles if (arm, cycle) not in read]
            for (_, _, cycle), entry in zip(new, readers.map(_record_or_fault, new), strict=True):
                read[arm, cycle] = entry
            found = [read[arm, cycle] for cycle in cycles]
            records[arm] = tuple(entry for entry in found if isinstance(entry, CycleRecord))
            faults += [entry for entry in found if isinstance(entry, str)]
            faults += _gaps(arm, cycles)
    if not any(records.values()):
        faults.append(f"{store.uri}: no cycle is committed yet")
    return Run(name, store.uri, config, records, tuple(faults))


def _gaps(arm: str, cycles: Sequence[int]) -> list[str]:
    """A line for each gap in an arm's journal."""
    return [
        f"{arm}: no record of cycle {before + 1}"
        + (f" to {after - 1}" if after > before + 2 else "")
        for before, after in pairwise(cycles)
        if after > before + 1
    ]


def short_names(uris: Sequence[str]) -> list[str]:
    """Distinct short names: as many trailing parts of the paths as that takes."""
    parts = [[p for p in PurePosixPath(uri).parts if p not in ("/", ".", "..")] for uri in uris]
    longest = max([1, *map(len, parts)])
    for length in range(1, longest + 1):
        names = ["/".join(part[-length:]) or "run" for part in parts]
        if len(set(names)) == len(names):
            return names
    return [f"run-{number}" for number in range(1, len(uris) + 1)]


def absolute(uri: str) -> str:
    """A folder as an absolute path; a URI as it is."""
    return uri if "://" in uri else str(Path(uri).expanduser().resolve())


def _record_or_fault(task: tuple[Store, str, int]) -> CycleRecord | str:
    try:
        return read_record(*task)
    except (CorruptError, InputError) as fault:
        return str(fault)
