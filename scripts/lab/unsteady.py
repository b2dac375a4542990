"""A proxy in front of an S3 server that does what networks and overloaded servers do."""

import http.client
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

ERROR = "<Error><Code>{}</Code><Message>{}</Message></Error>"


class Unsteady(ThreadingHTTPServer):
    """Forwards requests; to those of `method` (None: to all) it does, in turn, what `plan` says.

    busy: 503 · lost: done, but the answer is lost · cut: neither · slow: after a second ·
    forbidden: 403. While it is `away`, nothing is answered at all.
    """

    daemon_threads = True

    def __init__(self, endpoint: str, listening: socket.socket | None = None) -> None:
        """Listen on a free port of the loopback interface, or on the given socket."""
        super().__init__(("127.0.0.1", 0), _Handler, bind_and_activate=listening is None)
        if listening is not None:
            self.socket.close()
            self.socket, self.server_address = listening, listening.getsockname()
        self.behind = urlsplit(endpoint)
        self.method: str | None = "PUT"
        self.plan, self.away = deque[str](), False
        self.seen: deque[str] = deque(maxlen=10_000)

    @property
    def url(self) -> str:
        """Where it answers."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients may be killed at any time: that is no error of the proxy."""


@contextmanager
def unsteady(endpoint: str, listening: socket.socket | None = None) -> Iterator[Unsteady]:
    """A proxy that runs in a thread of this process."""
    with Unsteady(endpoint, listening) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Unsteady

    def handle_any(self) -> None:
        """Forward a request, or do what the plan says."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.server.away:
            time.sleep(0.1)
        plan = self.server.plan
        planned = plan and self.server.method in (None, self.command)
        what = plan.popleft() if planned else "well"
        self.server.seen.append(f"{self.command} {what}")
        if what == "busy":
            self.answer(503, ERROR.format("SlowDown", "Please reduce your request rate").encode())
        elif what == "forbidden":
            self.answer(403, ERROR.format("AccessDenied", "Access Denied").encode())
        elif what == "cut":
            self.close_connection = True
        else:
            if what == "slow":
                time.sleep(1)
            status, headers, answer = self.forward(body)
            if what == "lost":
                self.close_connection = True
            else:
                self.answer(status, answer, headers)

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815

    def forward(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """The server's answer: status, headers and body."""
        behind = self.server.behind
        connection = http.client.HTTPConnection(str(behind.hostname), behind.port, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), answer

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        """Send an answer."""
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = (headers or {}).get("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""
