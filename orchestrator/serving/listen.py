"""Listen: bind the port, and bound what a connection may send and how long it may take.

uvicorn limits neither the time nor the size of a request's headers, and closes no connection that
sends nothing. The size of a body is checked where it is read (`orchestrator.serving.body`).
"""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from divergence.errors import InputError
from orchestrator.serving.limits import Limits

MAX_HEADER_BYTES = 65_536


@contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A bound TCP socket; InputError if the address is in use or not one of this host."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, proto)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        raise InputError(f"--host {host} --port {port}: {error.strerror or error}") from None
    with bound:
        yield bound


class BoundedConnection(HttpToolsProtocol):
    """A connection whose requests must arrive in time and with headers of a bounded size.

    While it waits for a request, a timer runs. The timer stops when the request is complete and
    starts again when it has been answered.
    """

    def __init__(self, *args: Any, limits: Limits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._begun = False
        """Whether a part of a request has arrived."""
        self._overhead = 0
        """The bytes of that part that are not of its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request. Of too many connections, close the one that has waited longest."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._limits.max_connections:
            waiting = [
                (each._timer.when(), each)
                for each in self.connections
                if isinstance(each, BoundedConnection) and each._timer is not None
            ]
            _, oldest = min(waiting, key=lambda pair: pair[0])
            oldest._close(
                503,
                f"connections: must be at most {self._limits.max_connections} (--max-connections)",
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > MAX_HEADER_BYTES:
            self._close(431, f"headers: must be at most {MAX_HEADER_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a request. One that is sent ahead has to wait for its turn."""
        super().on_message_begin()
        self._begun = True
        if self.cycle is None or self.cycle.response_complete:
            self._wait()

    def on_body(self, body: bytes) -> None:
        """Subtract it twice: the lengths between small chunks may be as long as the chunks."""
        self._overhead -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        self._stop_waiting()
        self._begun, self._overhead = False, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has already arrived."""
        super().on_response_complete()
        if not self.pipeline and (self.cycle.response_complete or self.cycle.more_body):
            self._wait()

    def _wait(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self._limits.read_timeout_s, self._late)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.transport.is_closing():  # the client does not read its answer
            self.transport.abort()
        else:
            seconds = self._limits.read_timeout_s
            self._close(408, f"request: must be complete within {seconds:g} s (--read-timeout-s)")

    def _close(self, status: int, line: str) -> None:
        """Close the connection. A request that has begun and has no answer yet gets this one."""
        self._stop_waiting()
        answering = self.cycle is not None and (
            self.cycle.response_started and not self.cycle.response_complete
        )
        if self._begun and not answering and not self.transport.is_closing():
            body = json.dumps({"errors": [line]})
            head = (
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            )
            self.transport.write("\r\n".join([*head, "", body]).encode())
        self.transport.close()
