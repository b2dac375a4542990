"""Secrets go where they are used, and nowhere else."""

import json
import logging
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.config.file import config_text, read_config
from orchestrator.journal.run_folder import prepare
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.store import read
from orchestrator.watch.logs import logging_to

CONFIG = """
source:
  kind: files
  path: s3://bucket/events
  cut: {events: 10}
  storage_options:
    key: AKIA-public
    secret: hunter2
    endpoint_url: http://127.0.0.1:9
    client_kwargs: {aws_session_token: hunter3, region_name: here}
features: {user: [age], ad: [ad_id]}
arms: [{name: a}]
"""


def test_a_config_s_secrets_are_used_but_not_written(tmp_path: Path) -> None:
    given = read_config(CONFIG, "run.yaml")
    assert given.source.storage_options["secret"] == "hunter2"  # type: ignore[attr-defined]
    store = LocalStore(tmp_path)
    prepare(store, given)
    text = read(store, "config.yaml").decode()
    assert "hunter" not in text
    assert "AKIA" not in text
    assert "endpoint_url: http://127.0.0.1:9" in text
    assert "region_name: here" in text
    assert "hunter" not in config_text(given)
    prepare(store, given)  # the same config is still the same


def test_logs_are_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("orchestrator.pool.ray_pool")
    with logging_to(str(tmp_path / "log")):
        log.info("a trainer process is lost: %s", "it\nhung")
    log.info("not this")
    (line,) = (tmp_path / "log").read_text().splitlines()
    told = json.loads(line)
    assert (told["level"], told["message"]) == ("info", "a trainer process is lost: it\nhung")
    assert told["time"].endswith("+00:00")
    assert capsys.readouterr().err == ""


def test_a_password_in_a_path_is_refused_without_being_shown() -> None:
    text = (
        'source: {kind: files, path: "s3://me:hunter2@bucket/x.csv", cut: {events: 5}}\n'
        "features: {user: [a], ad: [b]}\narms: [{name: a}]\n"
    )
    with pytest.raises(InputError) as error:
        read_config(text, "run.yaml")
    assert str(error.value) == (
        "run.yaml:1: source.path: must not contain a password, a user name or a query, because "
        "records and logs show it"
    )
