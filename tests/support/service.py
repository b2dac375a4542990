"""A process that serves a made-up model, and how to ask it."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from scripts.bench.serve import MadeUpPlace

ROOT = Path(__file__).parents[2]
JSON = {"content-type": "application/json"}
USER = {"age": "1", "gender": "1", "geo": "1", "device": "1", "hour": 9, "last_category": None}
AD = {"creative": "1", "campaign": "1", "advertiser": "1", "category": "1"}


def asked(**user: Any) -> dict[str, Any]:
    """A body for /v1/score, with these features of the user instead of the usual ones."""
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


class Service:
    """A process that serves a made-up model."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.place = folder / "place"
        MadeUpPlace(self.place, vectors=400)
        self.delays = folder / "delays.txt"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "support.loop_delays", str(self.delays), "serve",
             str(self.place), "--port", "0", *options],
            stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/tests"},
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

    def delays_s(self) -> list[float]:
        """How long its own work has blocked the event loop, probe by probe."""
        return [float(line) for line in self.delays.read_text().split("\n")[:-1]]

    def answered(self) -> int:
        """How many requests of /v1 it has answered."""
        counts = re.findall(r'requests_total\{path="/v1/.*\} (.*)', self.metrics())
        return int(sum(map(float, counts)))

    def metrics(self) -> str:
        """The page that Prometheus reads."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as page:
            text: str = page.read().decode()
        return text

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
