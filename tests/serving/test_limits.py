"""The HTTP service under hostile requests: limits, the form of refusals, and /health meanwhile."""

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from fastapi import Response

from orchestrator.commands.serve import command
from orchestrator.serving.body import BusyError, Turns
from orchestrator.serving.limits import DEFAULT
from scripts.bench.serve import MadeUpPlace
from scripts.bench.serve import body as scored_body

pytestmark = pytest.mark.slow

JSON = {"content-type": "application/json"}
USER = {"age": "1", "gender": "1", "geo": "1", "device": "1", "hour": 9, "last_category": None}
AD = {"creative": "1", "campaign": "1", "advertiser": "1", "category": "1"}

NESTED = b"[" * 900 + b"]" * 900


def asked(**user: Any) -> dict[str, Any]:
    return {"user": USER | {"interests": ["1"]} | user, "ads": [AD]}


def ask(port: int, body: Any, path: str, headers: dict[str, str] = JSON) -> tuple[int, Any]:
    """The status and the answer to a body; None: GET."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, data, headers)
    answer = connection.getresponse()
    read = json.loads(answer.read())
    connection.close()
    return answer.status, read


class Served:
    """A process that serves a made-up model."""

    def __init__(self, folder: Path, *options: str) -> None:
        MadeUpPlace(folder, vectors=400)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from orchestrator.cli import main; main()", "serve",
             str(folder), "--port", "0", *options],
            stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127.0.0.1:(\d+)$", line)
        assert found, line
        self.port = int(found[1])
        for _ in range(600):
            try:
                self.connect().close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        raise AssertionError("the service did not start")

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(
        self, body: Any, path: str = "/v1/score", headers: dict[str, str] = JSON
    ) -> tuple[int, Any]:
        return ask(self.port, body, path, headers)

    def raw(self, data: bytes) -> tuple[int, str]:
        """The status and the one line that these bytes get, which must be followed by the end."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_refusal(connection)

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+)", status)
        assert found
        return int(found[1]) / 1024

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=30) in (0, -15)
        assert self.process.stdout is not None
        self.process.stdout.close()


def read_refusal(connection: socket.socket) -> tuple[int, str]:
    received = b""
    while data := connection.recv(65536):
        received += data
    head, _, body = received.partition(b"\r\n\r\n")
    [line] = json.loads(body)["errors"]
    return int(head.split()[1]), line


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("place"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(
        tmp_path_factory.mktemp("place"),
        "--max-body-mb", "0.1", "--max-ads", "20", "--max-values", "5",
        "--read-timeout-s", "1", "--max-connections", "30",
    )  # fmt: skip
    yield made
    made.stop()


def test_help_shows_every_limit_and_its_default() -> None:
    options = {option.name: option for option in command.params}
    text = CliRunner().invoke(command, ["--help"]).output
    for field in fields(DEFAULT):
        assert f"--{field.name.replace('_', '-')} " in text
        assert options[field.name].default == field.default
        assert options[field.name].to_info_dict()["default"] == field.default


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"", "body: must be a JSON object, sent with"),
        (b"{oops", "body: not JSON: Expecting property name"),
        (b"[" * 50_000, "body: is nested too deeply"),
        (b'{"user": {"age": %b}, "ads": [{}]}' % NESTED, "user.age: must be a string, a number"),
        (b'{"user": {}, "ads": [{"campaign": %b}]}' % NESTED, "user.age: missing"),
        (b'{"user": "\xff"}', "body: must be UTF-8, but is not at byte 10"),
        (json.dumps(asked()).encode("utf-16"), "body: must be UTF-8"),
        (b'\xef\xbb\xbf{"user": {}}', "body: not JSON: Expecting value at character 0"),
        (b'{"user": {}, "user": {}, "ads": []}', 'body: the key "user" occurs 2 times in one obj'),
        (b'{"user": {"age": 1, "age": 2}, "ads": []}', 'body: the key "age" occurs 2 times'),
        (asked() | {"x": 1}, "x: unknown key; the body must be"),
        (asked() | {"x" * 90_000: 1}, "x" * 500),
        (asked(**{"two\nlines": 1}), "user.two lines: unknown feature"),
        (asked(**{str(i): i for i in range(1500)}), "user.0: unknown feature"),
        (asked(**{"\ud800": 1}), r"user.\ud800: unknown feature"),
        (asked(age="\ud800"), "user.age: must be valid UTF-8"),
        (asked(age=float("nan")), "body: a number must be finite, but is NaN"),
        (asked(age=float("-inf")), "body: a number must be finite, but is -Infinity"),
        (b'{"user": {"age": 1e999}, "ads": [{}]}', "body: a number must be finite, but is 1e999"),
        (b'{"user": {"age": ' + b"9" * 5000 + b"}}", "body: Exceeds the limit (4300 digits)"),
        (asked(interests={"1": 10**400}), "user.interests: a weight must be from 0 to 1e+30"),
        (asked() | {"ads": [1] * 9_000}, "ads.0: Input should be a valid dictionary"),
        (b"[]", "body: must be a JSON object, sent with"),
        (b"null", "body: must be a JSON object, sent with"),
    ],
)  # fmt: skip
def test_every_malformed_body_is_a_422_of_the_documented_form(
    served: Served, body: Any, line: str
) -> None:
    status, answer = served.ask(body)
    assert status == 422
    assert list(answer) == ["errors"]
    assert answer["errors"][0].startswith(line)
    assert len(answer["errors"]) <= 20


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "\xff", ""])
def test_a_wrong_content_type_is_a_422(served: Served, kind: str) -> None:
    status, answer = served.ask(asked(), headers={"content-type": kind})
    assert (status, list(answer)) == (422, ["errors"])
    assert (
        served.ask(asked(), headers={"content-type": "Application/JSON; charset=utf-8"})[0] == 200
    )


def test_the_page_of_documentation_still_describes_the_bodies(served: Served) -> None:
    _, page = served.ask(None, "/openapi.json")
    content = page["paths"]["/v1/batch"]["post"]["requestBody"]["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/BatchRequest"}


def test_too_much_in_a_request_is_a_422_that_names_the_option(tight: Served) -> None:
    one = asked()
    refused = [
        (one | {"ads": [AD] * 21}, "/v1/score",
         "ads: must be at most 20 in total, but are 21 (--max-ads)"),
        ({"requests": [one] * 21}, "/v1/batch",
         "ads: must be at most 20 in total, but are 21 (--max-ads)"),
        (asked(interests=list("abcdef")), "/v1/score",
         "user.interests: must have at most 5 values, but has 6 (--max-values)"),
        (asked(interests=dict.fromkeys("abcdef", 1)), "/v1/score",
         "user.interests: must have at most 5 values, but has 6 (--max-values)"),
        ({"user": asked(interests=list("abcdef"))["user"]}, "/v1/user-vector",
         "user.interests: must have at most 5 values, but has 6 (--max-values)"),
        (asked(interests=[[]] * 300), "/v1/score",
         "body: must have at most 400 values for 20 ads, but has 614 (--max-ads)"),
    ]  # fmt: skip
    for body, path, line in refused:
        assert tight.ask(body, path) == (422, {"errors": [line]})
    assert tight.ask(one | {"ads": [AD] * 20})[0] == 200


def test_an_object_has_a_bounded_number_of_keys(served: Served) -> None:
    status, answer = served.ask(asked() | dict.fromkeys(map(str, range(100_000)), 1))
    line = "body: an object must have at most 2000 keys, but has 100002 (--max-values)"
    assert (status, answer) == (422, {"errors": [line]})


@pytest.mark.parametrize("path", ["/v1/score", "/health", "/nothing"])
def test_a_body_that_is_too_large_is_a_413_while_it_arrives(served: Served, path: str) -> None:
    """Sent to its end by a client that reads its answer only then, as most clients do."""
    before, megabyte = served.memory_mb(), b" " * 1_000_000
    line = "body: must be at most 2 MB (--max-body-mb)"
    declared = f"POST {path} HTTP/1.1\r\ncontent-length: 300000000\r\n\r\n".encode()
    chunked = f"POST {path} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    for head, part, end in (
        (declared, megabyte, b""),
        (chunked, b"%x\r\n%b\r\n" % (len(megabyte), megabyte), b"0\r\n\r\n"),
    ):
        with served.connect() as connection:
            connection.sendall(head)
            for _ in range(300):
                connection.sendall(part)
            connection.sendall(end)
            assert read_refusal(connection) == (413, line)
    assert served.memory_mb() - before < 50


def test_a_body_of_the_largest_size_is_read(tight: Served) -> None:
    body = json.dumps(asked()).encode()
    assert tight.ask(body.ljust(100_000))[0] == 200
    assert tight.ask(body.ljust(100_001))[0] == 413


@pytest.mark.parametrize(
    "part",
    [
        b"GET /health HT",
        b"GET /health HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n",
        b'POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"user"',
        b"POST /v1/score HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{    \r\n",
    ],
)
def test_a_request_that_is_not_complete_in_time_is_a_408(tight: Served, part: bytes) -> None:
    began = time.monotonic()
    line = "request: must be complete within 1 s (--read-timeout-s)"
    assert tight.raw(part) == (408, line)
    assert 0.9 < time.monotonic() - began < 5


def test_a_request_that_drips_is_closed_in_time_too(tight: Served) -> None:
    began = time.monotonic()
    with tight.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        connection.settimeout(0.1)
        answer = b""
        while not answer and time.monotonic() - began < 5:
            connection.sendall(b"x: y\r\n")
            with suppress(TimeoutError):
                answer = connection.recv(65536)
    assert b" 408 " in answer


def test_connections_that_send_nothing_are_closed_in_time(tight: Served) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    for sent in (b"", b"\r\n", request, request + b"\r\n"):
        with tight.connect() as connection:
            connection.sendall(sent)
            received, began = b"", time.monotonic()
            while data := connection.recv(65536):
                received += data
            assert time.monotonic() - began < 5
            assert b" 408 " not in received


def test_a_connection_serves_many_requests_also_sent_ahead(tight: Served) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    body = json.dumps(asked()).encode()
    post = (
        b"POST /v1/score HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    with tight.connect() as connection:
        connection.sendall(request * 3 + post % len(body) + body[:9])
        time.sleep(0.3)
        connection.sendall(body[9:] + request[:10])
        time.sleep(0.3)
        connection.sendall(request[10:])
        received = b""
        while data := connection.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1 200 OK") == 5
    assert b"HTTP/1.1 4" not in received


def test_headers_and_trailers_have_a_bounded_size(tight: Served) -> None:
    endless = b"x: " + b"y" * 70_000
    line = "headers: must be at most 65536 bytes"
    assert tight.raw(b"GET /health HTTP/1.1\r\n" + endless) == (431, line)
    chunked = b"POST /v1/score HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    assert tight.raw(chunked + endless) == (431, line)


def test_half_sent_requests_do_not_keep_others_out(tight: Served) -> None:
    halves = []
    for _ in range(100):
        halves.append(tight.connect())
        halves[-1].sendall(b"POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    assert tight.ask(None, "/health")[0] == 200
    line = "connections: must be at most 30 (--max-connections)"
    assert read_refusal(halves[0]) == (503, line)
    for half in halves:
        half.close()


def test_only_so_many_large_requests_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.serving.body.MAX_LARGE", 2)
    release = threading.Event()

    def work() -> Response:
        assert release.wait(30)
        return Response()

    async def ask_thrice() -> None:
        turns = Turns()
        waiting = [asyncio.create_task(turns.run(work, large=True)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError, match="2 large requests are already waiting"):
            await turns.run(work, large=True)
        assert (await turns.run(Response, large=False)).status_code == 200
        release.set()
        await asyncio.gather(*waiting)
        await turns.run(work, large=True)

    asyncio.run(ask_thrice())


def costly_bodies() -> list[tuple[str, bytes, int]]:
    """Path, body and status of requests that take long to read, parse, check or score."""
    rng = np.random.default_rng(0)
    many_ads = json.loads(scored_body(rng)) | {"ads": [AD] * 10_000}
    unknown = asked(interests=[f"u{i}" for i in range(1000)])
    lists = b'{"user": {"age": [%b1]}, "ads": [{}]}'
    bodies: list[tuple[str, Any, int]] = [
        ("score", many_ads, 200),
        ("batch", {"requests": [unknown] * 150}, 200),
        ("score", lists % (b"[]," * 99_000), 422),
        ("score", lists % (b"1e9," * 199_000), 422),
        ("score", lists % (b"[]," * 500_000), 422),
        ("score", asked(**{str(i): i for i in range(1500)}), 422),
        ("score", scored_body(rng), 200),
        ("score", b" " * 5_000_000, 413),
    ]
    encoded = lambda body: body if isinstance(body, bytes) else json.dumps(body).encode()  # noqa: E731
    return [(f"/v1/{path}", encoded(body), status) for path, body, status in bodies]


def send_costly_bodies(port: int) -> None:
    """Over two connections for each; never ends."""
    os.nice(15)  # so that the time of /health is not that of waiting for a processor

    def send(path: str, body: bytes) -> None:
        while True:
            ask(port, body, path)

    for path, body, _ in costly_bodies() * 2:
        threading.Thread(target=send, args=(path, body)).start()


def test_health_answers_at_once_whatever_else_happens(served: Served) -> None:
    """While costly and half-sent requests keep coming from another process."""
    for path, body, status in costly_bodies():
        assert served.ask(body, path)[0] == status
    sending = get_context("spawn").Process(target=send_costly_bodies, args=(served.port,))
    sending.start()
    halves = [served.connect() for _ in range(30)]
    for half in halves:
        half.sendall(b"POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    taken_s, end = [], time.monotonic() + 12
    while time.monotonic() < end:
        began = time.perf_counter()
        assert served.ask(None, "/health")[0] == 200
        taken_s.append(time.perf_counter() - began)
        time.sleep(0.01)
    assert sending.is_alive()
    sending.kill()
    sending.join()
    for half in halves:
        half.close()
    p50, p99 = 1e3 * np.percentile(taken_s, [50, 99])
    print(f"/health, {len(taken_s)} times: p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    assert len(taken_s) > 50
    assert p99 < 250
