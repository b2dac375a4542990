import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.journal import (
    commit,
    cycles_of,
    model_path,
    newest_committed,
    read_record,
    record_path,
    records_of,
    set_aside_uncommitted,
    unneeded_models,
)
from orchestrator.journal.record import CorruptError, CycleRecord, FileRef, encode
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.open import open_store
from orchestrator.storage.store import ConflictError, Store, read
from support.records import record

ARMS = {"a": 0, "b": 2}


def write_cycle(store: Store, cycle: int, driver: str = "d1") -> list[CycleRecord]:
    records = []
    for arm in (arm for arm, first in ARMS.items() if first <= cycle):
        path, data = model_path(arm, cycle), f"model {arm} {cycle}".encode()
        store.create(path, data)
        file = FileRef(path, hashlib.sha256(data).hexdigest(), len(data))
        records.append(record(arm, cycle, model=(file,), driver=driver))
    commit(store, records)
    return records


def run_of(cycles: int, store: Store) -> Store:
    for cycle in range(cycles):
        write_cycle(store, cycle)
    return store


@pytest.fixture
def local(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


def alter(store: LocalStore, path: str, data: bytes | None = None) -> None:
    whole = read(store, path)
    (store.root / path).write_bytes(whole[: len(whole) // 2] if data is None else data)


def test_the_newest_committed_cycle_is_found(local: LocalStore) -> None:
    found = newest_committed(run_of(4, local), ARMS)
    assert (found.cycle, list(found.records), found.skipped) == (3, ["a", "b"], ())
    assert encode(found.records["b"]) == read(local, record_path("b", 3))
    assert cycles_of(local, "b") == [2, 3]


def test_an_empty_folder_has_no_cycle(local: LocalStore) -> None:
    assert newest_committed(local, ARMS).cycle == -1


def test_an_arm_counts_from_its_first_cycle_on(local: LocalStore) -> None:
    found = newest_committed(run_of(2, local), ARMS)
    assert (found.cycle, list(found.records)) == (1, ["a"])


@pytest.mark.parametrize("arm", ["a", "b"])
@pytest.mark.parametrize("kind", ["record", "model"])
@pytest.mark.parametrize("harm", ["torn", "altered", "missing"])
def test_damage_is_named_and_the_cycle_before_is_used(
    local: LocalStore, arm: str, kind: str, harm: str
) -> None:
    run_of(4, local)
    path = record_path(arm, 3) if kind == "record" else model_path(arm, 3)
    if harm == "missing":
        local.delete(path)
    else:
        alter(local, path, b"other bytes" if harm == "altered" else None)
    found = newest_committed(local, ARMS)
    assert found.cycle == 2
    assert len(found.skipped) == 1
    assert found.skipped[0].startswith(f"{path}: {'missing' if harm == 'missing' else 'corrupt'}")


def test_a_record_in_the_wrong_place_is_damage(local: LocalStore) -> None:
    run_of(1, local)
    local.create(record_path("a", 1), read(local, record_path("a", 0)))
    with pytest.raises(CorruptError, match="holds journal/a/cycle-000000"):
        read_record(local, "a", 1)


def test_older_damage_does_not_matter_to_resume_and_shows_in_the_list(local: LocalStore) -> None:
    run_of(4, local)
    alter(local, record_path("a", 1))
    assert newest_committed(local, ARMS).cycle == 3
    listed = list(records_of(local, "a"))
    assert [isinstance(entry, CorruptError) for entry in listed] == [False, True, False, False]


def test_a_damaged_base_spoils_every_delta_on_it_and_is_read_once(local: LocalStore) -> None:
    run_of(2, local)
    base = FileRef(model_path("a", 2), hashlib.sha256(b"full").hexdigest(), 4)
    local.create(base.path, b"rotten")
    for cycle in (2, 3):
        commit(local, [record("a", cycle, model=(base,))])
    found = newest_committed(local, {"a": 0})
    assert (found.cycle, len(found.skipped)) == (1, 2)


def test_records_of_two_drivers_are_no_committed_cycle(local: LocalStore) -> None:
    run_of(3, local)
    first, _ = write_cycle(local, 3)
    local.delete(record_path("a", 3))
    commit(local, [first.model_copy(update={"driver": "d2"})])
    found = newest_committed(local, ARMS)
    assert found.cycle == 2
    assert found.skipped == ("cycle 3: two drivers wrote its records",)


def test_of_two_drivers_the_second_writes_no_record(local: LocalStore) -> None:
    run_of(3, local)
    write_cycle(local, 3, "d1")
    local.delete(record_path("b", 3))  # d1 is between its two records
    with pytest.raises(ConflictError, match=r"journal/a/cycle-000003\.json"):
        write_cycle(local, 3, "d2")
    assert cycles_of(local, "b") == [2]


def test_what_stands_after_the_resumed_cycle_is_set_aside(local: LocalStore) -> None:
    run_of(5, local)
    alter(local, record_path("b", 3), b"junk")
    assert set_aside_uncommitted(local, ARMS, 2) == [
        record_path(arm, cycle) for arm in ("b", "a") for cycle in (4, 3)
    ]
    assert read(local, f"set-aside/{record_path('b', 3)}.0") == b"junk"
    assert newest_committed(local, ARMS).cycle == 2
    assert local.names("models/a") == [f"cycle-00000{i}.safetensors" for i in range(3)]
    write_cycle(local, 3)
    write_cycle(local, 4)
    assert newest_committed(local, ARMS).cycle == 4
    set_aside_uncommitted(local, ARMS, 2)
    assert len(local.names("set-aside/journal/b")) == 4


@pytest.mark.slow
def test_a_run_on_an_object_store_resumes_the_same(bucket: str) -> None:
    store = run_of(3, open_store(bucket))
    store.delete(model_path("b", 2))
    found = newest_committed(open_store(bucket), ARMS)
    assert (found.cycle, found.skipped) == (1, (f"{model_path('b', 2)}: missing",))
    set_aside_uncommitted(store, ARMS, 1)
    write_cycle(store, 2)
    assert newest_committed(open_store(bucket), ARMS).cycle == 2


def test_retention_keeps_the_last_and_every_so_many() -> None:
    names = [Path(model_path("a", cycle)).name for cycle in range(10)]
    gone = unneeded_models(names, newest=9, keep_last=2, keep_every=4)
    assert sorted(set(names) - set(gone)) == [names[i] for i in (0, 4, 8, 9)]
    assert unneeded_models(names, 9, 1, None) == names[:9]
    assert unneeded_models(names, 9, 99, None) == []
    assert unneeded_models([*names, "cycle-000010.safetensors", "README"], 9, 99, None) == []


@given(
    full=st.lists(st.sampled_from(["full", "delta", "none"]), min_size=1, max_size=30),
    keep_last=st.integers(1, 5),
    keep_every=st.none() | st.integers(1, 7),
)
def test_no_file_that_a_kept_cycle_is_made_of_is_expendable(
    full: list[str], keep_last: int, keep_every: int | None
) -> None:
    kinds = ["full", *full[1:]]
    names = {
        cycle: Path(model_path("a", cycle, delta=kind == "delta")).name
        for cycle, kind in enumerate(kinds)
        if kind != "none"
    }
    newest = len(kinds) - 1
    needed = set()
    for cycle in range(len(kinds)):
        if cycle > newest - keep_last or (keep_every and cycle % keep_every == 0):
            base = max(c for c in range(cycle + 1) if kinds[c] == "full")
            needed |= {names[c] for c in range(base, cycle + 1) if c in names}
    gone = set(unneeded_models(names.values(), newest, keep_last, keep_every))
    assert not gone & needed
    fulls = {names[c] for c, kind in enumerate(kinds) if kind == "full"}
    assert gone >= fulls - needed
