"""As much of Google Cloud Storage's JSON API as its client asks a run folder's bucket for."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from urllib.parse import parse_qs, unquote, urlsplit


class Google(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects: dict[str, bytes] = {}
        self.lock = Lock()
        self.forbids = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def google() -> Iterator[Google]:
    with Google() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Google

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        name = unquote(url.path.partition("/o/")[2])
        if self.server.forbids:
            return self.answer(403, {"error": {"message": "no storage.objects.create access"}})
        with self.server.lock:
            return self.serve(name, asked, body)

    do_GET = do_POST = do_DELETE = handle_any  # noqa: N815

    def serve(self, name: str, asked: dict[str, str], body: bytes) -> None:
        objects = self.server.objects
        if self.command == "POST":
            _, about, data = body.split(b"--==0==\n", 2)
            name = json.loads(about.partition(b"\n\n")[2])["name"]
            if asked.get("ifGenerationMatch") == "0" and name in objects:
                return self.answer(412, {"error": {"message": "conditionNotMet"}})
            objects[name] = data.partition(b"\n\n")[2].removesuffix(b"\n--==0==--")
            return self.answer(200, self.about(name))
        if not name:
            return self.answer(200, self.listed(asked))
        if name not in objects:
            return self.answer(404, {"error": {"message": "Not Found"}})
        if self.command == "DELETE":
            del objects[name]
            return self.answer(204, None)
        if asked.get("alt") == "media" or "/download/" in self.path:
            return self.answer(200, objects[name])
        return self.answer(200, self.about(name))

    def listed(self, asked: dict[str, str]) -> dict[str, object]:
        prefix, items, folders = asked.get("prefix", ""), [], set()
        for name in sorted(self.server.objects):
            if name.startswith(prefix):
                inner = re.match(r"[^/]*/", name[len(prefix) :])
                if inner and asked.get("delimiter"):
                    folders.add(prefix + inner[0])
                else:
                    items.append(self.about(name))
        return {"items": items, "prefixes": sorted(folders)}

    def about(self, name: str) -> dict[str, str]:
        size = str(len(self.server.objects[name]))
        return {"name": name, "bucket": "b", "size": size, "generation": "1", "id": name}

    def answer(self, status: int, value: object) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if status != 204 else 0))
        self.end_headers()
        if status != 204:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass
