"""The limits of the HTTP service: on sizes, on time and on how much may wait."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields

import pytest
from click.testing import CliRunner

from orchestrator.commands.serve import command
from orchestrator.serving.limits import DEFAULT
from orchestrator.serving.turns import Answer, BusyError, PendingRequest, Turns, Work
from support.service import AD, Service, asked, read_refusal

pytestmark = pytest.mark.slow
IN_TIME_S = 9.0
"""The limit is 1 s here, and 10 s by default. A busy machine may be late."""


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(
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


def test_too_much_in_a_request_is_a_422_that_names_the_option(tight: Service) -> None:
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


def test_a_body_of_the_largest_size_is_read(tight: Service) -> None:
    body = json.dumps(asked()).encode()
    assert tight.ask(body.ljust(100_000))[0] == 200
    assert tight.ask(body.ljust(100_001))[0] == 413


def test_requests_that_are_not_complete_in_time_are_a_408(tight: Service) -> None:
    parts = [
        b"GET /health HT",
        b"GET /health HTTP/1.1\r\nhost: x\r\n",
        b"POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n",
        b'POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"user"',
        b"POST /v1/score HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{    \r\n",
    ]
    began = time.monotonic()
    line = "request: must be complete within 1 s (--read-timeout-s)"
    with ThreadPoolExecutor(len(parts)) as clients:
        for part, refusal in zip(parts, clients.map(tight.raw, parts), strict=True):
            assert refusal == (408, line), part
            assert 0.9 < time.monotonic() - began < IN_TIME_S, part


def test_a_request_that_drips_is_closed_in_time_too(tight: Service) -> None:
    began = time.monotonic()
    with tight.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n")
        connection.settimeout(0.1)
        answer = b""
        while not answer and time.monotonic() - began < IN_TIME_S:
            connection.sendall(b"x: y\r\n")
            with suppress(TimeoutError):
                answer = connection.recv(65536)
    assert b" 408 " in answer


def test_connections_that_send_nothing_are_closed_in_time(tight: Service) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"

    def received_until_closed(sent: bytes) -> bytes:
        received, began = b"", time.monotonic()
        with tight.connect() as connection:
            connection.sendall(sent)
            while data := connection.recv(65536):
                received += data
        assert time.monotonic() - began < IN_TIME_S
        return received

    with ThreadPoolExecutor(4) as clients:
        for answer in clients.map(
            received_until_closed, (b"", b"\r\n", request, request + b"\r\n")
        ):
            assert b" 408 " not in answer


def test_a_connection_serves_many_requests_also_sent_ahead(tight: Service) -> None:
    request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
    body = json.dumps(asked()).encode()
    post = (
        b"POST /v1/score HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    with tight.connect() as connection:
        connection.sendall(request * 3 + post % len(body) + body[:9])
        time.sleep(0.1)
        connection.sendall(body[9:] + request[:10])
        time.sleep(0.1)
        connection.sendall(request[10:])
        received = b""
        while data := connection.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1 200 OK") == 5
    assert b"HTTP/1.1 4" not in received


def test_a_client_that_does_not_read_its_answers_is_closed_in_time(tight: Service) -> None:
    """Also if it has sent all its requests ahead: 60 answers do not fit into the sockets."""
    body = json.dumps(asked(age="x" * 90_000)).encode()
    head = (
        b"POST /v1/score HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        client.connect(("127.0.0.1", tight.port))
        client.sendall((head % len(body) + body) * 60)
        before, now = -1, 0
        while now > before:
            time.sleep(0.5)
            before, now = now, tight.answered()
        time.sleep(3)  # the limit is 1 s
        received = b""
        with suppress(ConnectionResetError):
            while data := client.recv(65536):
                received += data
    assert received.count(b"HTTP/1.1 200 OK") < 60


def test_head_is_get_without_the_body_and_http_1_0_is_closed(tight: Service) -> None:
    with tight.connect() as connection:
        connection.sendall(b"HEAD /health HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        began, received = time.monotonic(), b""
        while data := connection.recv(65536):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in head
    assert body == b""
    assert time.monotonic() - began < 0.9


def test_headers_and_trailers_have_a_bounded_size(tight: Service) -> None:
    endless = b"x: " + b"y" * 70_000
    line = "headers: must be at most 65536 bytes"
    assert tight.raw(b"GET /health HTTP/1.1\r\n" + endless) == (431, line)
    chunked = b"POST /v1/score HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    assert tight.raw(chunked + endless) == (431, line)


def test_half_sent_requests_do_not_keep_others_out(tight: Service) -> None:
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
    monkeypatch.setattr("orchestrator.serving.turns.MAX_LARGE", 2)
    released = False

    def work() -> Work:
        while not released:
            yield
        return Answer(200, b"")

    async def ask_thrice() -> None:
        nonlocal released
        turns, answers = Turns(asyncio.get_running_loop()), list[Answer | Exception]()
        for _ in range(2):
            turns.add(PendingRequest(work(), answers.append), large=True)
        with pytest.raises(BusyError, match="2 large requests are already waiting"):
            turns.add(PendingRequest(work(), answers.append), large=True)
        quick = PendingRequest((Answer(200, b"") for _ in ()), answers.append)  # type: ignore[arg-type]
        turns.add(quick, large=False)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(answers) == 1
        released = True
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(answers) == 3
        turns.add(PendingRequest(work(), answers.append), large=True)
        assert len(answers) == 4

    asyncio.run(ask_thrice())


def test_the_loop_turns_between_slices() -> None:
    """Of large work, and of much small work: an event waits for one slice, not for all."""
    done = list[int]()

    def work(number: int) -> Work:
        for _ in range(3):
            end = time.perf_counter() + 0.003
            while time.perf_counter() < end:
                pass
            yield
        done.append(number)
        return Answer(200, b"")

    async def ask() -> None:
        turns, seen = Turns(asyncio.get_running_loop()), list[int]()
        for number in range(6):
            turns.add(PendingRequest(work(number), lambda _: None), large=number > 3)
        while len(done) < 6:
            seen.append(len(done))
            await asyncio.sleep(0)
        assert len(seen) >= 6 * 3
        assert len(set(seen)) >= 3

    asyncio.run(ask())
