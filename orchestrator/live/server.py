"""An HTTP server for one page, on this machine alone."""

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from divergence.errors import InputError
from orchestrator.live.follow import Shown

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
"""The hosts that a browser may name: other sites cannot read the page by a name of their own."""
TIMEOUT_S = 10.0


def page_server(port: int, shown: Callable[[], Shown]) -> ThreadingHTTPServer:
    """A server for what `shown` gives. InputError where the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = TIMEOUT_S

        def do_GET(self) -> None:
            if self.headers.get("host", "").rsplit(":", 1)[0] not in NAMES:
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            elif self.path == "/":
                self._answer(shown().page, "text/html; charset=utf-8")
            elif self.path == "/state":
                self._answer(shown().state, "application/json")
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the page asks every second."""

    try:
        return ThreadingHTTPServer((ADDRESS, port), Handler)
    except OSError as error:
        raise InputError(
            f"--port {port}: cannot listen on {ADDRESS}: {error.strerror}; 0 takes any free port"
        ) from error
