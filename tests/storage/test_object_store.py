"""Run folders on a real S3 API that is slow, busy, out of reach, or says no."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
import s3fs

from divergence.errors import InputError
from orchestrator.config.schema import Retention, RunConfig, feature_spec
from orchestrator.journal.journal import newest_committed
from orchestrator.journal.models import model_config
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.committer import Committer, PendingCommit
from orchestrator.loop.open_arms import open_arms
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.object_store import ObjectStore
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store, read
from scripts.lab.unsteady import Unsteady, unsteady
from support.configs import config
from support.records import record

pytestmark = pytest.mark.slow


@pytest.fixture
def proxy(bucket: str, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Unsteady]:
    with unsteady(s3_endpoint) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setattr("orchestrator.storage.object_store.FIRST_PAUSE_S", 0.05)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # so that it is our patience that is tested
        monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
        s3fs.S3FileSystem.clear_instance_cache()
        yield server


@pytest.mark.parametrize("plan", [["busy"], ["lost"], ["cut"], ["slow"], ["lost", "busy", "lost"]])
def test_a_put_arrives_once_whatever_happens_on_its_way(
    proxy: Unsteady, bucket: str, plan: list[str]
) -> None:
    store = open_store(bucket)
    assert store.names("") == []
    proxy.plan.extend(plan)
    store.create("journal/a/x.json", b"whole")
    assert read(store, "journal/a/x.json") == b"whole"
    assert [seen.split()[1] for seen in proxy.seen if seen.startswith("PUT")][: len(plan)] == plan


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_outage_is_waited_out(proxy: Unsteady, bucket: str, method: str) -> None:
    store = open_store(bucket)
    store.create("x", b"whole")
    proxy.method = method
    proxy.plan.extend(["cut"] * 4)
    if method == "GET":
        assert read(store, "x") == b"whole"
    else:
        store.delete("x")
        assert store.names("") == []
    assert not proxy.plan


def test_an_outage_that_does_not_end_is_one_line(proxy: Unsteady, bucket: str) -> None:
    fs = s3fs.S3FileSystem(use_listings_cache=False)
    store = ObjectStore(bucket, fs, bucket.removeprefix("s3://"), retry_for_s=0.2)
    store.create("x", b"")
    proxy.plan.extend(["cut"] * 100)
    with pytest.raises(InputError) as caught:
        store.create("y", b"")
    assert str(caught.value).startswith(f"{bucket}/y: cannot be written: ")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("method", "what"), [("PUT", "written"), ("GET", "read"), ("DELETE", "deleted")]
)
def test_a_missing_permission_is_one_line_at_once(
    proxy: Unsteady, bucket: str, method: str, what: str
) -> None:
    store = open_store(bucket)
    store.create("x", b"")
    proxy.method = method
    proxy.plan.extend(["forbidden"] * 3)
    with pytest.raises(InputError, match=f"^{bucket}/x: cannot be {what}: .*[Aa]ccess"):
        {"PUT": lambda: store.create("x", b"new"), "GET": lambda: read(store, "x"),
         "DELETE": lambda: store.delete("x")}[method]()  # fmt: skip


def test_no_bucket_and_no_server_are_one_line(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^s3://no-such-bucket/run/x: cannot be written: .*exist"):
        open_store("s3://no-such-bucket/run").create("x", b"")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(InputError, match=r"cannot be listed: .*127\.0\.0\.1:9"):
        open_store(bucket).names("")


def test_a_password_in_a_uri_is_refused_and_not_shown() -> None:
    with pytest.raises(InputError) as caught:
        open_store("sftp://me:hunter2@host/run")
    assert "a URI must not contain a password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


class PowerCutError(Exception):
    """The process is gone."""


class Interrupted:
    """A store whose process is gone after so many changes."""

    def __init__(self, store: Store, changes: int) -> None:
        self.uri, self._store, self._left = store.uri, store, changes

    def create(self, path: str, data: bytes) -> None:
        self._count()
        self._store.create(path, data)

    def delete(self, path: str) -> None:
        self._count()
        self._store.delete(path)

    def open(self, path: str) -> BinaryIO:
        return self._store.open(path)

    def names(self, folder: str) -> list[str]:
        return self._store.names(folder)

    def _count(self) -> None:
        if self._left == 0:
            raise PowerCutError
        self._left -= 1


def commit_cycle(store: Store, given: RunConfig, cycle: int) -> None:
    """Commit a cycle as the loop does: each arm's model, then the records in order."""
    spec = resolve_spec(given.source, feature_spec(given.features))
    lines = open_arms(given, model_config(given, spec), store, {})
    sealed = []
    for line in lines.values():
        line.has_champion = True  # its model is not in its files yet
        sealed.append(PendingCommit(line, record(line.name, cycle, model=(), norms=None), None))
    with Committer(store, Retention(keep_last=1)) as committer:
        committer.hand_over(sealed)


def test_a_commit_interrupted_at_every_step(bucket: str) -> None:
    given, steps = config(), 0
    while True:
        where = f"{bucket}/{steps}"
        store = open_store(where)
        prepare(store, given)
        commit_cycle(store, given, 0)
        try:
            commit_cycle(Interrupted(store, steps), given, 1)
        except PowerCutError:
            start = prepare(store, given)
            whole = len(store.names("journal/a")) == len(store.names("journal/b")) == 2
            assert start.cycle == (2 if whole else 1)
            assert start.records["a"].driver == start.records["b"].driver
            if start.cycle == 1:
                commit_cycle(store, given, 1)
            assert newest_committed(store, {"a": 0, "b": 0}).cycle == 1
            steps += 1
        else:
            break
    assert steps == 6  # two models, two records, two models that are no longer kept


def test_a_run_folder_from_a_stranger_is_data(tmp_path: Path) -> None:
    """Nothing in it is executed: YAML without tags, JSON, safetensors."""
    from orchestrator.journal.run_folder import run_config

    touched = tmp_path / "touched"
    evil = (
        f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [{touched}]]"
    )
    (tmp_path / "config.yaml").write_text(f"source: {evil}\narms: []\n")
    with pytest.raises(InputError):
        run_config(open_store(str(tmp_path)))
    assert not touched.exists()
