"""The HTTP service under load from other processes: 1 user with 100 ads, during swaps too.

    .venv/bin/python scripts/bench/serve.py [--quick] [--readme]

Makes a model of the simulator's features, publishes it, serves it with `holdfast serve`, and sends
requests over kept connections, also while a delta is published every second. Beside it, in the same
run, the obvious ways to serve the same model: ONNX Runtime behind FastAPI, and NumPy
(`pip install -e .[bench]`; left out if not installed). Prints Markdown tables.
"""

import argparse
import hashlib
import importlib.util
import json
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.journal.record import FileRef
from orchestrator.publish.origin import open_origin
from orchestrator.publish.place import Version, write_version
from orchestrator.serving.scorer import Scorer
from orchestrator.sources.simulator.spec import SPEC
from orchestrator.storage.local_store import LocalStore
from scripts.bench.page import add_options, reported
from trainer.mean_model import mean_config
from trainer.model import Changes, Model, ModelConfig
from trainer.modelfile import save_delta, save_model

ADS = 100
CAMPAIGNS = 5000
MEANS = (4, 8)
"""How many lines there are in a mean that is scored beside one line."""
CHANGED = 2000
"""Rows that a delta changes."""
STARTS_S = 120.0
"""How long a server may take to start."""
HOLDFAST = (sys.executable, "-c", "from orchestrator.cli import main; main()", "serve")
PEER = (sys.executable, "-m", "scripts.bench.serve_peers")
HAS_PEERS = all(importlib.util.find_spec(name) for name in ("fastapi", "onnxruntime", "onnx"))


class MadeUpPlace:
    """A published place of a made-up model, which changes on request."""

    def __init__(self, folder: Path, vectors: int, mean_of: int = 1) -> None:
        self.store = LocalStore(folder)
        self.model = Model(mean_config(ModelConfig(SPEC, overlap=2, alone=2), mean_of))
        users = [(k, str(v)) for k in range(7) for v in range(200)]
        ads = [(7 + k, f"{v}") for k in range(4) for v in range(vectors // 4)]
        self.rng = np.random.default_rng(0)
        for side, keys in ((self.model.user, users), (self.model.ad, ads)):
            side.insert(keys)
            side.rows[:, 0] = self.rng.normal(0, 0.1, side.rows[:, 0].shape)
        self.model.cycle = 0
        self.files: list[FileRef] = []
        self._put("", save_model(self.model))

    def change(self) -> None:
        """Publish the next cycle: some rows changed."""
        since, self.model.cycle = self.model.cycle, self.model.cycle + 1
        rows = self.rng.choice(len(self.model.ad), CHANGED, replace=False)
        self.model.ad.rows[rows, 0] *= 1.01
        self._put(".delta", save_delta(self.model, Changes(since, np.arange(200), rows)))

    def _put(self, suffix: str, data: bytes) -> None:
        cycle = self.model.cycle
        sha256 = hashlib.sha256(data).hexdigest()
        path = f"models/cycle-{cycle:06d}{suffix}-{sha256[:12]}.safetensors"
        self.store.create(path, data)
        self.files.append(FileRef(path, sha256, len(data)))
        now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        write_version(self.store, Version(cycle + 1, "bench", cycle, now, tuple(self.files)))


def body(rng: np.random.Generator) -> bytes:
    """A request: one user, a hundred ads."""
    user: dict[str, object] = {f.name: str(rng.integers(200)) for f in SPEC.user if not f.multi}
    user["interests"] = [str(v) for v in rng.integers(200, size=3)]
    user["interest_weights"] = [0.5, 0.3, 0.2]
    ads = [{f.name: str(rng.integers(CAMPAIGNS)) for f in SPEC.ad} for _ in range(ADS)]
    return json.dumps({"user": user, "ads": ads}).encode()


def connect(port: int) -> socket.socket:
    """A connection to a server that may still be starting."""
    end = time.monotonic() + STARTS_S
    while True:
        try:
            found = socket.create_connection(("127.0.0.1", port), timeout=30)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return found
        except (ConnectionRefusedError, TimeoutError):
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def load(port: int, seconds: float, seed: int) -> list[float]:
    """Send one request after the other; the milliseconds of each."""
    rng = np.random.default_rng(seed)
    head = "POST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    bodies = [body(rng) for _ in range(50)]
    requests = [f"{head}content-length: {len(one)}\r\n\r\n".encode() + one for one in bodies]
    taken: list[float] = []
    with connect(port) as connection:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.sendall(requests[len(taken) % 50])
            answer = read_answer(connection)
            taken.append(1e3 * (time.perf_counter() - began))
            if len(taken) % 50 == 1:
                assert len(json.loads(answer)["pctr"]) == ADS
    return taken


def read_answer(connection: socket.socket) -> bytes:
    """The body of an answer, which must be a 200."""
    received = _received(connection)
    while (at := received.find(b"\r\n\r\n")) < 0:
        received += _received(connection)
    assert received.startswith(b"HTTP/1.1 200"), received[:500]
    found = re.search(rb"content-length: (\d+)", received[:at], re.IGNORECASE)
    assert found
    while len(received) < at + 4 + int(found[1]):
        received += _received(connection)
    return received[at + 4 :]


def _received(connection: socket.socket) -> bytes:
    part = connection.recv(65536)
    if not part:
        raise SystemExit("the server closed a connection before its answer was complete")
    return part


@contextmanager
def serving(*command: str) -> Iterator[int]:
    """A server, by the port that the end of its first line names."""
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        line = server.stdout.readline().rstrip()
        found = re.search(r":(\d+)$", line)
        if found is None:
            raise SystemExit(f"the server did not start: {line!r}")
        load(int(found[1]), 1.0, 9)
        yield int(found[1])
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        server.stdout.close()


Figures = dict[str, tuple[float, float, float]]
"""Requests a second, and the median and the 99th percentile in ms, by what was measured."""


def measured(port: int, clients: int, seconds: float, beside: Callable[[], None] | None) -> Any:
    """The milliseconds of all requests."""
    stop = threading.Event()
    changing = threading.Thread(target=_every_second, args=(beside, stop)) if beside else None
    if changing:
        changing.start()
    with ProcessPoolExecutor(clients, get_context("spawn")) as pool:
        list(pool.map(load, [port] * clients, [0.2] * clients, range(clients)))  # started, warm
        parts = list(pool.map(load, [port] * clients, [seconds] * clients, range(clients)))
    stop.set()
    if changing:
        changing.join()
    return np.concatenate(parts)


def _every_second(change: Callable[[], None], stop: threading.Event) -> None:
    while not stop.wait(1.0):
        change()


def over_http(folder: str, source: MadeUpPlace, seconds: float) -> Figures:
    """Print a row for each way to serve."""
    print("| server | clients | swaps | requests a second | p50 | p99 | longest |")
    print("|---|---|---|---|---|---|---|")
    ours = (*HOLDFAST, folder, "--port", "0", "--poll-s", "0.1")
    servers: list[tuple[str, tuple[str, ...], tuple[int, ...], bool]] = [
        ("`holdfast serve`", ours, (1, 4), True),
        ("the same, `--processes 2`", (*ours, "--processes", "2"), (4,), True),
    ]
    if HAS_PEERS:
        servers.append(("ONNX Runtime behind FastAPI", (*PEER, folder), (1, 4), False))
    figures: Figures = {}
    for name, command, counts, swaps in servers:
        with serving(*command) as port:
            for clients in counts:
                for beside in (None, source.change) if swaps else (None,):
                    taken = measured(port, clients, seconds, beside)
                    p50, p99 = np.percentile(taken, [50, 99])
                    rate, what = len(taken) / seconds, "a delta a second" if beside else "none"
                    print(f"| {name} | {clients} | {what} | {rate:,.0f} | {p50:.2f} ms "
                          f"| {p99:.2f} ms | {taken.max():.1f} ms |")  # fmt: skip
                    figures[f"{name}, {clients}, {what}"] = (rate, float(p50), float(p99))
    return figures


def in_process(folder: str, vectors: int, rounds: int) -> float:
    """Print the microseconds of scoring in Python, way by way in turn; returns ours."""
    rng = np.random.default_rng(1)
    requests = [json.loads(body(rng)) for _ in range(50)]
    ours = Scorer(open_origin(folder))
    ways: dict[str, Callable[..., Any]] = {"`Scorer.score`": ours.score}
    if HAS_PEERS:
        from scripts.bench.serve_peers import NumpyScorer, OnnxScorer

        ways |= {"NumPy": NumpyScorer(ours.current), "ONNX Runtime": OnnxScorer(ours.current)}
    expected = ours.score(**requests[0]).pctr
    for way in list(ways.values())[1:]:
        np.testing.assert_allclose(way(**requests[0]), expected, rtol=1e-4)
    for count in MEANS:
        place = Path(folder) / f"mean-of-{count}"
        MadeUpPlace(place, vectors, count)
        scorer = Scorer(open_origin(str(place)))
        ways[f"`Scorer.score`, the mean of {count} lines"] = scorer.score
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            for request in requests:
                way(**request)
            taken[name].append(1e6 * (time.perf_counter() - began) / len(requests))
    medians = {name: float(np.median(each)) for name, each in taken.items()}
    ours_us = medians["`Scorer.score`"]
    print("\n| in one Python process, from dictionaries | µs a request | ÷ ours |\n|---|---|---|")
    for name, median in medians.items():
        print(f"| {name} | {median:.0f} | {median / ours_us:.2f} |")
    return ours_us


def print_bars(figures: Figures, scorer_us: float) -> list[str]:
    """The bars, and whether they are met; returns those that were missed."""
    missed = []
    rate, p50, _ = figures["`holdfast serve`, 1, none"]
    p99 = figures["`holdfast serve`, 1, a delta a second"][2]
    print("\n| one process, one client | bar | measured | |\n|---|---|---|---|")
    for what, bar, found, met in (
        ("requests a second", "≥ 2,500", f"{rate:,.0f}", rate >= 2500),
        ("median", "≤ 0.4 ms", f"{p50:.2f} ms", p50 <= 0.4),
        ("p99 with a delta a second", "≤ 2 ms", f"{p99:.2f} ms", p99 <= 2),
        ("`Scorer.score`", "≤ 120 µs", f"{scorer_us:.0f} µs", scorer_us <= 120),
    ):
        print(f"| {what} | {bar} | {found} | {'met' if met else 'missed'} |")
        if not met:
            missed.append(f"{what} {bar}, but {found}")
    return missed


def main() -> None:
    """Serve, send requests, print the tables; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    add_options(parser)
    options = parser.parse_args()
    seconds = 2.0 if options.quick else options.seconds
    with (
        tempfile.TemporaryDirectory() as folder,
        reported("serve", options.readme, options.quick) as missed,
    ):
        source = MadeUpPlace(Path(folder), options.vectors)
        print(f"{options.vectors:,} vectors, 1 user with {ADS} ads a request\n")
        figures = over_http(folder, source, seconds)
        rounds = 20 if options.quick else 100
        missed += print_bars(figures, in_process(folder, options.vectors, rounds))


if __name__ == "__main__":
    main()
