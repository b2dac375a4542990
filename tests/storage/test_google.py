"""Run folders on gs://, through Google's client."""

from collections.abc import Iterator

import pytest

from divergence.errors import InputError
from orchestrator.journal.journal import commit
from orchestrator.journal.run_folder import prepare
from orchestrator.storage.lease import LeaseTiming, hold_lease
from orchestrator.storage.open import open_store
from orchestrator.storage.store import ConflictError, read
from support.configs import config
from support.gcs_api import Google, google
from support.records import record

pytestmark = pytest.mark.slow


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    import gcsfs  # takes a second, which every test process would pay

    with google() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        gcsfs.GCSFileSystem.clear_instance_cache()
        yield server
        gcsfs.GCSFileSystem.clear_instance_cache()


def test_a_run_folder_on_google_cloud_storage(server: Google) -> None:
    store = open_store("gs://b/runs/first")
    with hold_lease(store, timing=LeaseTiming(0.05, 0.5)) as held:
        assert prepare(held, config()).cycle == 0
        commit(held, [record(arm, 0, model=()) for arm in ("a", "b")])
        with pytest.raises(InputError, match="holds the lease on this run"), hold_lease(store):
            raise AssertionError("two have it")
    assert prepare(store, config()).cycle == 1
    assert store.names("journal/a") == ["cycle-000000.json"]
    store.create("x", b"one")
    store.create("x", b"one")
    with pytest.raises(ConflictError):
        store.create("x", b"two")
    assert read(store, "x") == b"one"
    store.delete("x")
    store.delete("x")
    with pytest.raises(FileNotFoundError):
        read(store, "x")


def test_a_missing_permission_is_one_line_at_once(server: Google) -> None:
    store = open_store("gs://b/runs/first")
    assert store.names("") == []
    server.forbids = True
    with pytest.raises(InputError, match=r"^gs://b/runs/first/x: cannot be written: Forbidden: "):
        store.create("x", b"")
