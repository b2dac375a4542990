"""One HTTP connection: requests are parsed by httptools, bounded in size and time, and answered."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import httptools

from orchestrator.serving.app import LARGE_BYTES, App, refusal, refused
from orchestrator.serving.limits import Limits
from orchestrator.serving.turns import Answer, PendingRequest, Turns

MAX_HEADER_BYTES = 65_536
MOST_AHEAD = 64
"""Requests that a client may send ahead of their answers before we stop reading."""


@dataclass(slots=True)
class Request:
    """A request, while it arrives and until it is answered."""

    method: str = ""
    path: str = ""
    content_type: str = ""
    body: bytearray = field(default_factory=bytearray)
    keep_alive: bool = True
    began: float = 0.0
    expects: bool = False
    """The client waits for our word before it sends the body."""
    refused: bool = False
    """Its body is too large, and discarded."""
    answered: bool = False


class Connection(asyncio.Protocol):
    """Answers the requests of one client in their order.

    While it waits for a request, a timer runs. The timer stops when the request is complete and
    starts again when it has been answered.
    """

    def __init__(self, app: App, turns: Turns, connections: "set[Connection]") -> None:
        self._app, self._turns, self._connections = app, turns, connections
        self._limits: Limits = app.scorer.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._arriving: Request | None = None
        self._overhead = 0
        """The bytes of that request that are not of its body."""
        self._ahead: deque[Request] = deque()
        """Complete requests that wait for those before them."""
        self._current: Request | None = None
        self._can_write = True

    # -- what the event loop calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request. Of too many connections, close the one that has waited longest."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        self._wait()
        most = self._limits.max_connections
        if len(self._connections) > most:
            waiting = [(each._timer.when(), each) for each in self._connections if each._timer]
            _, oldest = min(waiting, key=lambda pair: pair[0])
            if oldest._transport.is_closing():  # its client does not read the last answer
                oldest.abort()
            else:
                oldest._close(503, f"connections: must be at most {most} (--max-connections)")

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self._connections.discard(self)
        self._ahead.clear()

    def pause_writing(self) -> None:
        """The client does not read its answers: leave its other requests for later."""
        self._can_write = False

    def resume_writing(self) -> None:
        """The client reads again."""
        self._can_write = True
        self._next()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # there is no other protocol here: the request is answered as any other
        except httptools.HttpParserError:
            self._arriving = self._arriving or Request()
            self._close(400, "request: must be HTTP/1.1")
        if self._overhead > MAX_HEADER_BYTES:
            self._close(431, f"headers: must be at most {MAX_HEADER_BYTES} bytes")

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a request, or for the rest of one."""
        return self._timer is not None

    def finish(self) -> None:
        """Close the connection once the request at hand, if any, has been answered."""
        if self._current is None:
            self._transport.close()
        else:
            self._current.keep_alive = False

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # -- what the parser calls --------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a request. One that is sent ahead has to wait for its turn."""
        self._arriving = Request()
        if self._current is None and not self._ahead:
            self._wait()

    def on_url(self, url: bytes) -> None:
        """A part of the path and the query."""
        assert self._arriving is not None
        self._arriving.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        assert self._arriving is not None
        name = name.lower()
        if name == b"content-type":
            self._arriving.content_type = value.decode("latin-1")
        elif name == b"content-length" and int(value[:19]) > self._limits.body_bytes:
            self._arriving.refused = True
        elif name == b"expect" and value.lower() == b"100-continue":
            self._arriving.expects = True

    def on_headers_complete(self) -> None:
        """The end of the headers."""
        request = self._arriving
        assert request is not None
        request.method = self._parser.get_method().decode("latin-1")
        request.path = request.path.partition("?")[0]
        if request.refused:
            self._refuse_body(request)
        elif request.expects and self._current is None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Subtract it twice: the lengths between small chunks may be as long as the chunks."""
        self._overhead -= 2 * len(body)
        request = self._arriving
        assert request is not None
        if request.refused:
            return
        if len(request.body) + len(body) > self._limits.body_bytes:
            self._refuse_body(request)
        else:
            request.body += body

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        request, self._arriving, self._overhead = self._arriving, None, 0
        assert request is not None
        if request.answered:  # nothing may follow
            self._transport.close()
            return
        request.keep_alive = (
            self._parser.should_keep_alive()
            and not self._parser.should_upgrade()
            and self._parser.get_http_version() != "1.0"  # it waits for our end or our promise
        )
        self._ahead.append(request)
        if len(self._ahead) > MOST_AHEAD:
            self._transport.pause_reading()
        self._next()

    # -- answering --------------------------------------------------------------------------------

    def _next(self) -> None:
        """Start with the next request, if it is complete and those before it are answered."""
        while self._current is None and self._ahead and self._can_write:
            self._stop_waiting()
            self._current = request = self._ahead.popleft()
            if len(self._ahead) == MOST_AHEAD:
                self._transport.resume_reading()
            request.began = time.perf_counter()
            if request.refused:
                request.keep_alive = False
                self._done(self._too_large())
                continue
            work = self._app.works.get(request.path) if request.method == "POST" else None
            if work is None:
                self._done(self._app.answer(request.method, request.path))
                continue
            body = bytes(request.body)
            job = PendingRequest(work(body, request.content_type), self._done)
            try:
                self._turns.add(job, len(body) > LARGE_BYTES)
            except Exception as error:
                self._done(error)

    def _done(self, answer: Answer | Exception) -> None:
        """Answer the current request, then go on with the next one."""
        request, self._current = self._current, None
        assert request is not None
        if isinstance(answer, Exception):
            answer = refused(answer)
        self._app.metrics.answered(request.path, answer.status, time.perf_counter() - request.began)
        if self._transport.is_closing():
            return
        body = b"" if request.method == "HEAD" else answer.body
        self._transport.write(_head(answer, request.keep_alive) + body)
        if not request.keep_alive:
            self._ahead.clear()
            self._transport.close()
        if self._ahead and self._can_write:
            self._loop.call_soon(self._next)
        else:
            self._wait()

    def _refuse_body(self, request: Request) -> None:
        """Answer, then discard the rest: a client that is still sending would miss the answer."""
        request.refused = True
        request.body.clear()
        if self._current is None and not self._ahead and not self._transport.is_closing():
            request.answered = True
            answer = self._too_large()
            self._app.metrics.answered(request.path, answer.status, 0.0)
            self._transport.write(_head(answer, keep_alive=False) + answer.body)

    def _too_large(self) -> Answer:
        most = self._limits.max_body_mb
        return refusal(413, [f"body: must be at most {most:g} MB (--max-body-mb)"])

    # -- waiting ----------------------------------------------------------------------------------

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = self._loop.call_later(self._limits.read_timeout_s, self._late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self._transport.get_write_buffer_size():  # the client does not read its answer
            self._transport.abort()
        else:
            seconds = self._limits.read_timeout_s
            self._close(408, f"request: must be complete within {seconds:g} s (--read-timeout-s)")

    def _close(self, status: int, line: str) -> None:
        """Close the connection. A request that has begun and has no answer yet gets this one.

        The timer goes on for a client that does not read what we have sent.
        """
        if self._transport.is_closing():
            return
        self._wait()
        request = self._arriving
        if request is not None and not request.answered and self._current is None:
            answer = refusal(status, [line])
            self._transport.write(_head(answer, keep_alive=False) + answer.body)
        self._transport.close()


def _head(answer: Answer, keep_alive: bool) -> bytes:
    head = _fixed_head(answer.status, answer.kind, keep_alive, int(time.time()))
    return b"%b%d\r\n\r\n" % (head, len(answer.body))


@lru_cache(64)
def _fixed_head(status: int, kind: str, keep_alive: bool, now: int) -> bytes:
    """The head of an answer up to its length."""
    lines: Iterable[str] = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"date: {formatdate(now, usegmt=True)}",
        f"content-type: {kind}",
        *(() if keep_alive else ("connection: close",)),
        "content-length: ",
    )
    return "\r\n".join(lines).encode()
