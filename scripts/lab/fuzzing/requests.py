"""HTTP requests to the serving process, handed to a connection without a socket."""

import asyncio
import functools
import json
import os
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.publish.origin import open_origin
from orchestrator.serving.app import App
from orchestrator.serving.connection import Connection
from orchestrator.serving.scorer import Scorer
from orchestrator.serving.turns import Turns
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import mutated, mutated_bytes, render, scalar
from scripts.lab.fuzzing.run_folders import run_files
from scripts.lab.fuzzing.sandbox import Failure, Sandbox, check_line, watched_writes
from scripts.lab.fuzzing.shrink import smaller

STATUSES = {200, 400, 404, 405, 408, 411, 413, 415, 422, 431, 503}
MAX_BODY_BYTES = 64 << 20
"""A body that is longer must be refused before all of it has been read."""
USER = {"age": "25", "interests": ["x", "y"], "shares": [1.0, 0.5]}
ADS = [{"ad": "value 0.0", "category": "c"}, {"ad": "new", "category": None}]
BODIES: dict[str, Any] = {
    "/v1/score": {"user": USER, "ads": ADS},
    "/v1/batch": {"requests": [{"user": USER, "ads": ADS}, {"user": USER, "ads": ADS[:1]}]},
    "/v1/user-vector": {"user": USER},
}
OTHER_PATHS = ("/health", "/version", "/metrics", "/docs", "/openapi.json", "/", "//", "/v1/score/",
               "/v1/\x00", "/v1/../health", "/" + "a" * 9_000, "/v1/scor\u00e9", "")  # fmt: skip
METHODS = ("POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "X", "")
HEADERS = (
    ("content-type", "application/json"), ("content-type", "text/plain"), ("content-type", ""),
    ("content-type", "application/json; charset=utf-16"), ("content-type", "multipart/form-data"),
    ("content-type", "application/x-www-form-urlencoded"), ("content-length", "-1"),
    ("content-length", "99999999999999999999"), ("content-length", "x"), ("content-length", "0"),
    ("content-encoding", "gzip"), ("transfer-encoding", "chunked"), ("x", "a" * 9_000),
    ("host", "é"), ("expect", "100-continue"), ("accept", "*/*;q=x"), ("origin", "null"),
)  # fmt: skip


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Requests:
    """One request. `repeat` sends the body that many times."""

    name, share = "request", 24

    def generate(self, rng: random.Random) -> Case:
        """A right request with changes of its body, and sometimes of its other parts."""
        path = rng.choice(list(BODIES))
        data = BODIES[path]
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            data = mutated(rng, data, scalar)
        body = render(data).encode("utf-8", "surrogatepass")
        chance = rng.random()
        if chance < 0.2:
            body = mutated_bytes(rng, body)
        elif chance < 0.21:
            body = _large(rng)
        head: dict[str, Any] = {"method": "POST", "path": path, "headers": [HEADERS[0]]}
        if rng.random() < 0.15:
            head["path"] = rng.choice((*OTHER_PATHS, *BODIES))
            head["method"] = rng.choice(METHODS)
        if rng.random() < 0.15:
            head["headers"] = [rng.choice(HEADERS) for _ in range(rng.choice((0, 1, 3)))]
        if rng.random() < 0.002:
            head["repeat"] = 1 + (2 * MAX_BODY_BYTES) // max(1, len(body))
        return Case(self.name, body, head)

    def run(self, case: Case, box: Sandbox) -> None:
        """Send it; every answer is one that the README documents."""
        head = case.head
        with watched_writes(box.out):
            answer = _call(head["method"], head["path"], head["headers"], _parts(case))
        if answer.status not in STATUSES:
            raise Failure(f"status {answer.status}", answer.body[:2_000].decode("utf-8", "replace"))
        if answer.read > MAX_BODY_BYTES and answer.status != 413:  # else it only discards it
            raise Failure(f"accepts a body of more than {MAX_BODY_BYTES >> 20} MiB")
        if answer.status == 422:
            for line in json.loads(answer.body)["errors"]:
                check_line(line)

    def command(self, case: Case, box: Sandbox) -> list[str] | None:
        """None: there is no command for one request."""
        return None

    def simpler(self, case: Case) -> Iterator[Case]:
        """Without repeats, then fewer headers, then fewer bytes."""
        if "repeat" in case.head:
            yield Case(self.name, case.body, {k: v for k, v in case.head.items() if k != "repeat"})
        for i in range(len(case.head["headers"])):
            rest = [h for j, h in enumerate(case.head["headers"]) if j != i]
            yield Case(self.name, case.body, case.head | {"headers": rest})
        for body in smaller(case.body):
            yield Case(self.name, body, case.head)


class _Answer:
    """What the service sent, and how much of the body it read."""

    status, body, read = 0, b"", 0


class _Transport(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self._closed = b"", False

    def write(self, data: Any) -> None:
        self.sent += data

    def close(self) -> None:
        self._closed = True

    def is_closing(self) -> bool:
        return self._closed

    def get_write_buffer_size(self) -> int:
        return 0


@functools.cache
def _app() -> Any:
    """The service with the champion of a run; one for each process."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in run_files().items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return App(Scorer(open_origin(folder)))


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of a process: children must not share their parent's."""
    return asyncio.new_event_loop()


def prepare() -> None:
    """Make the service, which takes a second, once for this process and its children."""
    _call("GET", "/health", [], [b""])


def _call(method: str, path: str, headers: list[Any], parts: list[bytes]) -> _Answer:
    return _loop(os.getpid()).run_until_complete(_called(method, path, headers, parts))


async def _called(method: str, path: str, headers: list[Any], parts: list[bytes]) -> _Answer:
    """Send a request through a connection without a socket, until it is closed or answered."""
    turns = Turns(asyncio.get_running_loop())
    connection, transport = Connection(_app(), turns, set()), _Transport()
    connection.connection_made(transport)
    answer = _Answer()
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if not any(name in ("content-length", "transfer-encoding") for name, _ in headers):
        lines.append(f"content-length: {sum(map(len, parts))}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass")
    for part in (head, *parts):
        if transport.is_closing():
            break
        answer.read += len(part)
        connection.data_received(part)
    connection.eof_received()
    for _ in range(1_000_000):
        if transport.sent.removeprefix(CONTINUE) or transport.is_closing():
            break
        await asyncio.sleep(0)
        if connection.is_waiting:
            break
    connection.connection_lost(None)
    first, _, rest = transport.sent.removeprefix(CONTINUE).partition(b"\r\n\r\n")
    answer.status = int(first.split()[1]) if first else 408  # not complete: closed after a while
    length = re.search(rb"content-length: (\d+)", first)
    answer.body = rest[: int(length[1])] if length else rest  # what follows answers other requests
    return answer


def _parts(case: Case) -> list[bytes]:
    """The body as it arrives: in two parts, or many times in parts of about 1 MiB."""
    repeat = case.head.get("repeat")
    if repeat is None:
        half = len(case.body) // 2
        return [case.body[:half], case.body[half:]] if case.body else [b""]
    together = max(1, (1 << 20) // max(1, len(case.body)))
    return [case.body * together] * max(1, repeat // together)


def _large(rng: random.Random) -> bytes:
    """Many ads, interests or keys, but far from the limit of a body."""
    count = rng.choice((9_999, 10_001, 30_000))
    what = rng.randrange(3)
    if what == 0:
        data: Any = {"user": USER, "ads": ADS[:1] * count}
    elif what == 1:
        many = USER | {"interests": [str(i) for i in range(count)], "shares": None}
        data = {"user": many, "ads": ADS}
    else:
        data = {"user": USER | {f"k{i}": 1 for i in range(count)}, "ads": ADS}
    return json.dumps(data).encode()
