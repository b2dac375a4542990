"""A proxy before an S3 server that does what networks and overloaded servers do."""

import http.client
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import urlsplit

ERROR = "<Error><Code>{}</Code><Message>{}</Message></Error>"


class Unsteady(ThreadingHTTPServer):
    """Forwards requests; to those of `method` it does, in turn, what `plan` says.

    busy: 503 · lost: done, but the answer is lost · cut: neither · slow: after a second ·
    forbidden: 403. While it is `away`, nothing is answered at all.
    """

    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(endpoint)
        self.method, self.plan, self.away = "PUT", deque[str](), False
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def unsteady(endpoint: str) -> Iterator[Unsteady]:
    with Unsteady(endpoint) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Unsteady

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.server.away:
            time.sleep(0.1)
        plan = self.server.plan
        what = plan.popleft() if plan and self.command == self.server.method else "well"
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
        behind = self.server.behind
        connection = http.client.HTTPConnection(str(behind.hostname), behind.port, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), answer

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
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
        pass
