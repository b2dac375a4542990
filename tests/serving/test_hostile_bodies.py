"""The HTTP service under hostile bodies: the form of refusals, memory, and /health meanwhile."""

import json
import threading
import time
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from scripts.bench.serve import body as scored_body
from support.service import AD, Service, ask, asked, read_refusal

pytestmark = pytest.mark.slow

NESTED = b"[" * 900 + b"]" * 900


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("place"))
    yield made
    made.stop()


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
        (b'{"\\ud800": 1}', r"body: must not have \ud800 alone, which is half a character"),
        (asked(age=float("nan")), "body: a number must be finite, but is NaN"),
        (asked(age=float("-inf")), "body: a number must be finite, but is -Infinity"),
        (b'{"user": {"age": 1e999}, "ads": [{}]}', "body: a number must be finite, but is 1e999"),
        (b'{"user": {"age": ' + b"9" * 5000 + b"}}", "body: an integer must have at most 500 dig"),
        (asked(interests={"1": 10**400}), "user.interests: a weight must be from 0 to 1e+30"),
        (asked() | {"ads": [1] * 9_000}, "ads.0: Input should be a valid dictionary"),
        (b"[]", "body: must be a JSON object, sent with"),
        (b"null", "body: must be a JSON object, sent with"),
    ],
)  # fmt: skip
def test_every_malformed_body_is_a_422_of_the_documented_form(
    served: Service, body: Any, line: str
) -> None:
    status, answer = served.ask(body)
    assert status == 422
    assert list(answer) == ["errors"]
    assert answer["errors"][0].startswith(line)
    assert len(answer["errors"]) <= 20


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "\xff", ""])
def test_a_wrong_content_type_is_a_422(served: Service, kind: str) -> None:
    status, answer = served.ask(asked(), headers={"content-type": kind})
    assert (status, list(answer)) == (422, ["errors"])
    assert (
        served.ask(asked(), headers={"content-type": "Application/JSON; charset=utf-8"})[0] == 200
    )


def test_the_page_of_documentation_still_describes_the_bodies(served: Service) -> None:
    _, page = served.ask(None, "/openapi.json")
    content = page["paths"]["/v1/batch"]["post"]["requestBody"]["content"]["application/json"]
    assert content["schema"] == {"$ref": "#/components/schemas/BatchRequest"}


def test_an_object_has_a_bounded_number_of_keys(served: Service) -> None:
    status, answer = served.ask(asked() | dict.fromkeys(map(str, range(100_000)), 1))
    line = "body: an object must have at most 2000 keys, but has 100002 (--max-values)"
    assert (status, answer) == (422, {"errors": [line]})


@pytest.mark.parametrize("path", ["/v1/score", "/health", "/nothing"])
def test_a_body_that_is_too_large_is_a_413_while_it_arrives(served: Service, path: str) -> None:
    """Sent to its end by a client that reads its answer only then, as most clients do."""
    before, megabyte = served.memory_mb(), b" " * 1_000_000
    line = "body: must be at most 2 MB (--max-body-mb)"
    declared = f"POST {path} HTTP/1.1\r\ncontent-length: 100000000\r\n\r\n".encode()
    chunked = f"POST {path} HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    for head, part, end in (
        (declared, megabyte, b""),
        (chunked, b"%x\r\n%b\r\n" % (len(megabyte), megabyte), b"0\r\n\r\n"),
    ):
        with served.connect() as connection:
            connection.sendall(head)
            for _ in range(100):
                connection.sendall(part)
            connection.sendall(end)
            assert read_refusal(connection) == (413, line)
    assert served.memory_mb() - before < 50


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
        ("score", lists % ((b"9" * 499 + b",") * 3900), 422),
        ("score", asked(**{str(i): i for i in range(900)}), 422),
        ("score", asked(interests=[f"u{i}" for i in range(900)]), 200),
        ("score", asked(interests="s3://" * 390_000), 422),
        ("score", scored_body(rng), 200),
        ("score", b" " * 5_000_000, 413),
    ]
    encoded = lambda body: body if isinstance(body, bytes) else json.dumps(body).encode()  # noqa: E731
    return [(f"/v1/{path}", encoded(body), status) for path, body, status in bodies]


def send_costly_bodies(port: int) -> None:
    """Over two connections for each; never ends."""

    def send(path: str, body: bytes) -> None:
        while True:
            ask(port, body, path)

    for path, body, _ in costly_bodies() * 2:
        threading.Thread(target=send, args=(path, body)).start()


def test_health_answers_at_once_whatever_else_happens(served: Service) -> None:
    """While costly and half-sent requests keep coming from another process."""
    for path, body, status in costly_bodies():
        assert served.ask(body, path)[0] == status
    sending = get_context("spawn").Process(target=send_costly_bodies, args=(served.port,))
    sending.start()
    halves = [served.connect() for _ in range(30)]
    for half in halves:
        half.sendall(b"POST /v1/score HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
    already = len(costly_bodies()) + served.answered()
    while served.answered() < already:  # it has begun
        assert sending.is_alive()
        time.sleep(0.1)
    first, taken_s, start = len(served.delays_s()), [], time.monotonic()
    while (
        time.monotonic() < start + 3
        or served.answered() < already + 50
        or len(served.delays_s()) < first + 200
    ):
        assert time.monotonic() < start + 120
        began = time.monotonic()
        assert served.ask(None, "/health")[0] == 200
        taken_s.append(time.monotonic() - began)
        time.sleep(0.01)
    delays_s = served.delays_s()[first:]
    assert sending.is_alive()
    sending.kill()
    sending.join()
    for half in halves:
        half.close()
    p50, p99 = 1e3 * np.percentile(taken_s, [50, 99])
    blocked = 1e3 * np.percentile(delays_s, 99)
    print(f"/health, {len(taken_s)} times: p50 {p50:.1f}, p99 {p99:.1f}, our own {blocked:.1f} ms")
    assert blocked < 50  # the rest of p99 is the machine's: other processes run, too
    assert p50 < 250  # /health does not queue behind the others
