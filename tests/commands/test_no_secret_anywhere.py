"""Canaries in every place where a user may put a secret: none is written or shown."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.commands import run as run_command
from orchestrator.config.file import read_config
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import Ended, Ending, run
from orchestrator.pool.local_pool import LocalPool
from orchestrator.storage.local_store import LocalStore
from orchestrator.track.tracked_cycle import parameters

CANARY = "hunter2"
Holdfast = Callable[..., tuple[int, str]]
OPTIONS = [
    *("pass", "pwd", "auth", "Cookie", "X-Auth", "conn_str", "passphrase", "signature", "bearer"),
    *("sessionToken", "userPassword", "key", "secret", "token", "headers"),
]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    events = tmp_path / "events.csv"
    lines = [f"{i % 3 == 0:d},{i % 5},{i % 4}" for i in range(60)]
    events.write_text("\n".join(["click,user,ad", *lines, "x,broken,row"]) + "\n")
    path = tmp_path / "run.yaml"
    path.write_text(
        f"""
source: {{kind: files, path: {events}, cut: {{events: 30}}, max_broken_share: 1.0}}
features: {{user: [user], ad: [ad], timestamp: null}}
search: {{instances: 2, sampler: random}}
arms: [{{name: a, rule: {{name: l2, lam: 0.001}}}}]
"""
    )
    return path


@pytest.fixture
def holdfast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Holdfast:
    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def assert_clean(folder: Path, shown: str = "") -> None:
    assert CANARY not in shown
    assert "hun/ter2" not in shown
    for path in folder.rglob("*"):
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path
            assert b"hun/ter2" not in path.read_bytes(), path


def test_a_run_uses_storage_options_and_writes_none(config: Path, tmp_path: Path) -> None:
    options = ", ".join(f"{name}: {CANARY}" for name in OPTIONS)
    address = f"endpoint_url: 'http://u:{CANARY}@h', region: here"
    given = f"source.storage_options={{{options}, {address}, client_kwargs: {{x: {CANARY}}}}}"
    read = read_config(config.read_text(), "run.yaml", (given,))
    assert read.source.storage_options["pwd"] == CANARY  # type: ignore[attr-defined]
    store = LocalStore(tmp_path / "run")
    run(read, store, prepare(store, read), [], LocalPool)
    assert_clean(tmp_path / "run")
    assert "region: here" in (tmp_path / "run" / "config.yaml").read_text()
    logged = parameters(read, "a")
    assert logged["source.storage_options.region"] == "here"
    assert CANARY not in str(logged)
    assert prepare(store, read).cycle == 3  # the same options, given again, resume it


URIS = [
    f"s3://me:{CANARY}@bucket/x",
    "http://me:hun/ter2@host/x",
    f"https://{CANARY}@host/x",
    f"https://host/x?sig={CANARY}",
    f"s3://bucket/x?X-Amz-Signature={CANARY}",
]


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize(
    "key", ["source.path", "source.quarantine", "publish.to", "track.tensorboard"]
)
def test_a_uri_with_credentials_is_refused_before_anything_is_written(
    uri: str, key: str, config: Path, holdfast: Holdfast, tmp_path: Path
) -> None:
    code, shown = holdfast("run", str(config), "--set", f"{key}={uri}", "--out", "run")
    assert code == 2
    assert f"{key}: must not contain a password" in shown
    assert len(shown.splitlines()) == 1
    assert not (tmp_path / "run").exists()
    assert_clean(tmp_path, shown)


@pytest.mark.parametrize("uri", URIS)
def test_no_command_echoes_such_a_uri(
    uri: str, config: Path, holdfast: Holdfast, tmp_path: Path
) -> None:
    for arguments in (
        ["run", str(config), "--out", uri],
        ["log", uri],
        ["health", uri],
        ["report", uri],
        ["report", "x", "--out", uri],
        ["replay", uri, "--cycle", "0", "--instance", "0"],
        ["score", uri, "events.csv"],
        ["publish", uri, "place"],
        ["serve", uri],
        ["export", uri, "--as", "parquet", "--out", "x"],
        ["describe", str(config), "--set", f"source.path={uri}"],
        ["config", str(config), "--set", f"source={{path: {{a: '{uri}'}}}}"],
        ["config", str(config), "--set", uri],
    ):
        code, shown = holdfast(*arguments)
        assert code == 2, arguments
        assert_clean(tmp_path, shown)


@pytest.mark.parametrize(
    "given",
    [
        f"={CANARY}",
        f"=[{CANARY}]",
        f".secret=!!int {CANARY}",
        f".secret=*{CANARY}",
        f".secret=!{CANARY}",
        f".secret={{{CANARY}",
        f".secret={CANARY}\0",
    ],
)
def test_a_mistake_in_the_storage_options_does_not_show_them(
    given: str, config: Path, holdfast: Holdfast
) -> None:
    code, shown = holdfast("config", str(config), "--set", f"source.storage_options{given}")
    assert code == 2
    assert CANARY not in shown
    assert "storage_options" in shown


def test_the_line_that_says_how_to_resume_hides_them(
    config: Path, holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_command, "_train", lambda *_: Ended(Ending.STOPPED, 1))
    secret = f"source.storage_options={{secret: {CANARY}}}"
    code, shown = holdfast(
        "run", str(config), "--out", "run", "--set", secret, "--set", "seed=1", "--log", "log"
    )
    assert code == 130
    assert "--set 'source.storage_options=…' --set seed=1 --resume" in shown
    assert_clean(tmp_path, shown)
