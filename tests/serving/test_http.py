"""The HTTP service as a process of its own, asked from here while champions change."""

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from orchestrator.config.schema import PublishConfig
from orchestrator.publish.publisher import Publisher
from orchestrator.storage.local_store import LocalStore
from support.small_run import SmallRun
from trainer.scoring import score

pytestmark = pytest.mark.slow

USER = {"age": "25-34", "gender": "female", "device": "mobile"}
ADS = [{"campaign": f"c{i}.0", "category": f"category-{i % 3}"} for i in range(5)]
MAIN = [sys.executable, "-c", "from orchestrator.cli import main; main()"]


class Served:
    """A run, the place it publishes to, and a process that serves it."""

    def __init__(self, folder: Path) -> None:
        self.run, place = SmallRun(folder / "run"), LocalStore(folder / "place")
        self.publisher = Publisher(
            self.run.config, self.run.store, place, PublishConfig(to=place.uri)
        )
        self.publish()
        arguments = ["serve", place.uri, "--port", "0", "--poll-s", "0.05"]
        root = str(Path(__file__).parents[2])
        self.process = subprocess.Popen(
            [*MAIN, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": root},
        )
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        found = re.search(r"serving version 1 \(cycle 0\) .* on http://127.0.0.1:(\d+)", told)
        assert found, told
        self.port = int(found[1])
        self.ask("GET", "/health")

    def publish(self) -> int:
        version = self.publisher.publish(self.run.play())
        assert version is not None
        return version.number

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and body; a service that is not up yet is waited for."""
        data = body if isinstance(body, str | None) else json.dumps(body)
        for _ in range(600):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
                connection.request(method, path, data, {"content-type": "application/json"})
                answer = connection.getresponse()
                text = answer.read().decode()
                connection.close()
                return answer.status, json.loads(text) if text.startswith("{") else text
            except ConnectionRefusedError:
                time.sleep(0.1)
        raise AssertionError("the service did not come up")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"))
    yield made
    made.process.terminate()
    assert made.process.wait(timeout=30) in (0, -15)
    assert made.process.stdout is not None
    made.process.stdout.close()


def test_one_user_with_many_ads(served: Served) -> None:
    status, answer = served.ask("POST", "/v1/score", {"user": USER, "ads": ADS})
    assert status == 200
    assert (answer["version"], answer["cycle"]) == (1, 0)
    table = pa.Table.from_pylist([USER | ad for ad in ADS])
    assert answer["pctr"] == pytest.approx(score(served.run.model, table), rel=2e-6)


def test_a_batch_is_answered_as_single_requests_are(served: Served) -> None:
    other = USER | {"age": None}
    asked = [{"user": USER, "ads": ADS}, {"user": other, "ads": ADS[:2]}]
    _, single = served.ask("POST", "/v1/score", asked[1])
    status, answer = served.ask("POST", "/v1/batch", {"requests": asked})
    assert status == 200
    assert [len(each) for each in answer["pctr"]] == [5, 2]
    assert answer["pctr"][1] == pytest.approx(single["pctr"], rel=1e-6)


def test_the_users_vector_for_other_engines(served: Served) -> None:
    status, answer = served.ask("POST", "/v1/user-vector", {"user": USER})
    model = served.run.model
    assert status == 200
    assert len(answer["vector"]) == model.shape.ad
    assert answer["bias"] == model.bias[0]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/score", {"user": USER | {"agee": 1}, "ads": ADS}, "user.agee: unknown feature (did"),
        (
            "/v1/score",
            {"user": USER, "ads": [ADS[0], {"campaign": []}]},
            "ads[1].campaign: must be",
        ),
        ("/v1/score", {"user": USER}, "ads: Field required"),
        ("/v1/score", {"user": USER, "ads": ADS, "x": 1}, "x: unknown key; the body must be"),
        ("/v1/score", {"user": USER, "ads": []}, "ads: must have at least one ad, but is empty"),
        ("/v1/score", "{oops", "body: not JSON: Expecting property name"),
        ("/v1/batch", [{"user": USER, "ads": ADS}], "body: must be a JSON object, sent with"),
        ("/v1/batch", {"requests": []}, "requests: List should have at least 1 item"),
        ("/v1/user-vector", {"user": 3}, "user: Input should be a valid dictionary"),
    ],
)
def test_mistakes_are_told_in_a_line_each(served: Served, path: str, body: Any, told: str) -> None:
    status, answer = served.ask("POST", path, body)
    assert status == 422
    assert answer["errors"][0].startswith(told)


def test_no_request_fails_while_champions_change(served: Served) -> None:
    """Health, version, age and metrics tell of the change; nothing is answered but by 200."""
    stop, seen = threading.Event(), list[tuple[int, int]]()

    def ask() -> None:
        while not stop.is_set():
            status, answer = served.ask("POST", "/v1/score", {"user": USER, "ads": ADS})
            seen.append((status, answer["version"]))

    asking = threading.Thread(target=ask)
    asking.start()
    newest = 1
    for _ in range(4):
        newest = served.publish()
        for _ in range(600):
            if served.ask("GET", "/version")[1]["version"] == newest:
                break
            time.sleep(0.05)
    stop.set()
    asking.join()
    assert {status for status, _ in seen} == {200}
    versions = [version for _, version in seen]
    assert versions == sorted(versions)
    status, health = served.ask("GET", "/health")
    assert (status, health["status"], health["version"], health["faults"]) == (200, "ok", newest, 0)
    assert 0 <= health["age_s"] < 600
    _, metrics = served.ask("GET", "/metrics")
    assert f"holdfast_model_version {newest}.0" in metrics
    assert 'holdfast_requests_total{path="/v1/score",status="200"}' in metrics
    features = served.ask("GET", "/version")[1]["features"]
    assert features == {"user": ["age", "gender", "device"], "ad": ["campaign", "category"]}


def test_a_stale_model_is_unhealthy_and_a_taken_port_is_told(served: Served) -> None:
    place = str(Path(served.run.store.uri).with_name("place"))
    taken = subprocess.run(
        [*MAIN, "serve", place, "--port", str(served.port)],
        capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert taken.returncode == 2
    assert taken.stderr.strip().endswith("Address already in use")
    from orchestrator.publish.origin import open_origin
    from orchestrator.serving.app import App
    from orchestrator.serving.scorer import Scorer

    answer = App(Scorer(open_origin(place)), max_age_s=1e-9).answer("GET", "/health")
    assert answer.status == 503
    assert json.loads(answer.body)["status"] == "stale"
