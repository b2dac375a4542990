"""The same sources on object storage, through a real S3 API."""

from typing import Any

import fsspec
import pytest

from divergence.errors import InputError
from support.event_files import ads, all_events, csv_text, follow, jsonl_text, rows, source

pytestmark = pytest.mark.slow


@pytest.fixture
def options(s3_endpoint: str) -> dict[str, Any]:
    return {"endpoint_url": s3_endpoint, "key": "test", "secret": "test"}


@pytest.fixture
def bucket(options: dict[str, Any], request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("_", "-").lower()
    fsspec.filesystem("s3", **options).mkdir(name)
    return f"s3://{name}"


def put(path: str, text: str, options: dict[str, Any]) -> None:
    fs = fsspec.filesystem("s3", **options)
    fs.pipe_file(path, text.encode())


def test_files_are_cut_on_s3(bucket: str, options: dict[str, Any]) -> None:
    put(f"{bucket}/in/a.csv", csv_text(rows(12)), options)
    put(f"{bucket}/in/b.jsonl", jsonl_text(rows(25)[12:]), options)
    for cut in ({"events": 10}, {"minutes": 10}):
        chunks = all_events(source(f"{bucket}/in", storage_options=options, cut=cut))
        assert [ad for chunk in chunks for ad in ads(chunk)] == [f"ad{i}" for i in range(25)]
    assert chunks[1].origin.endswith(f"of {bucket}/in/a.csv, {bucket}/in/b.jsonl")


def test_following_and_quarantine_on_s3(bucket: str, options: dict[str, Any]) -> None:
    put(f"{bucket}/in/1.csv", csv_text(rows(3)) + "broken\n", options)
    more = {"storage_options": options, "max_broken_share": 0.5}
    stream = follow(f"{bucket}/in", f"{bucket}/run", **more)
    assert stream.events(0).set_aside == {"wrong number of fields": 1}
    put(f"{bucket}/in/0.csv", csv_text(rows(2)), options)
    put(f"{bucket}/in/2.csv", csv_text(rows(4)), options)
    put(f"{bucket}/in/_DONE", "", options)
    assert stream.events(1).set_aside == {"late file": 2}
    assert stream.events(2) is None
    resumed = follow(f"{bucket}/in", f"{bucket}/run", **more)
    assert [len(chunk.table) for chunk in all_events(resumed)] == [3, 4]
    fs = fsspec.filesystem("s3", **options)
    assert b'"line": 5, "reason": "wrong number of fields"' in fs.cat_file(
        f"{bucket}/run/quarantine/cycle-000000.jsonl"
    )


def test_nothing_there_is_one_line(bucket: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        source(f"{bucket}/none.csv", storage_options=options)
    assert str(error.value) == f"source.path '{bucket}/none.csv' does not exist"


def test_no_server_is_one_line() -> None:
    options = {
        "endpoint_url": "http://127.0.0.1:9",
        "key": "k",
        "secret": "s",
        "config_kwargs": {"retries": {"max_attempts": 0}},
    }
    with pytest.raises(InputError, match=r"source.path 's3://b/e.csv' cannot be read: .*9"):
        source("s3://b/e.csv", storage_options=options)


def test_memory_file_system() -> None:
    fsspec.filesystem("memory").pipe_file("/e/a.csv", csv_text(rows(3)).encode())
    assert ads(source("memory://e").events(0)) == ["ad0", "ad1", "ad2"]
