"""What of a URI may be shown, and which URIs are refused."""

import time

import pytest

from divergence.errors import InputError
from orchestrator.validation.secrets import harmless
from orchestrator.validation.uris import check_uri, redact

HARMLESS = [
    "runs/first",
    "data/day=?/part-?.csv",
    "file:///data/x",
    "s3://bucket/run",
    "s3://bucket/day=?/hour=1/*.parquet",
    "s3://bucket/x@v1/y",
    "http://127.0.0.1:9000/x",
    "abfs://container@account.dfs.core.windows.net/run",
    "sftp://me@host:22/run",
    "zip://*.csv::abfs://container@account/x.zip",
]


@pytest.mark.parametrize("uri", HARMLESS)
def test_a_uri_without_credentials_stays_as_it_is(uri: str) -> None:
    assert redact(uri) == check_uri(uri) == uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://me:hunter2@bucket/x", "s3://bucket/x"),
        ("http://u:hun/ter2@host/x", "http://host/x"),
        ("http://u:hun@ter2@host/x", "http://host/x"),
        ("s3://u@corp:hunter2@host/x", "s3://host/x"),
        ("s3://me:hun ter2@host/x", "s3://host/x"),
        ("https://hunter2@host/x", "https://host/x"),
        ("https://host/x.csv?hunter2", "https://host/x.csv"),
        ("https://host/x.csv#token=hunter2", "https://host/x.csv"),
        ("s3://bucket/x?sig=hunter2", "s3://bucket/x"),
        ("https://h/x?to=https://a/b&sig=hunter2", "https://h/x"),
        ("abfs://c:hunter2@account/x", "abfs://account/x"),
        ("zip://*.csv::https://u:hunter2@h/x?sig=hunter2", "zip://*.csv::https://h/x"),
    ],
)
def test_credentials_are_removed_and_refused(uri: str, shown: str) -> None:
    assert redact(uri) == shown
    text = redact(f"cannot read '{uri}', retrying")
    assert "hun" not in text
    assert "ter2" not in text
    with pytest.raises(InputError, match="must not contain a password") as caught:
        check_uri(uri)
    assert "hun" not in str(caught.value)
    assert "ter2" not in str(caught.value)


def test_a_long_text_takes_no_time() -> None:
    began = time.process_time()
    for text in ("a" * 1_000_000 + "://", "s3://a:" * 2000, "s3://a?" * 2000):
        redact(text)
    assert time.process_time() - began < 5


def test_only_harmless_storage_options_are_kept() -> None:
    names = ["key", "secret", "token", "pass", "pwd", "auth", "Cookie", "X-Auth", "conn_str"]
    names += ["passphrase", "signature", "bearer", "sessionToken", "userPassword", "account_key"]
    secrets = dict.fromkeys([*names, "headers", "sas_token", "whatever"], "hunter2")
    kept = {
        "region": "eu-west-1",
        "anon": False,
        "endpoint_url": "http://127.0.0.1:9000/x",
        "requester_pays": True,
    }
    nested = {"client_kwargs": {"region_name": "here", "aws_session_token": "hunter2"}}
    assert harmless(secrets | kept | nested) == kept | {"client_kwargs": {"region_name": "here"}}
    for address in ("http://u:hunter2@h", "https://h/x?sig=hunter2", "u:hunter2@h"):
        assert harmless({"endpoint_url": address}) == {}
    for value in (["hunter2"], {"a": "hunter2"}, "a secret: hunter2"):
        assert harmless({"region": value}) == {}
