"""The HTTP service under load from a second process: 1 user with 100 ads, during swaps too.

    .venv/bin/python scripts/bench/serve.py [--readme]

Makes a model of the simulator's features, publishes it, serves it with `holdfast serve`, and sends
requests from processes of their own over kept connections. Then the same while a delta is published
every second. Prints a Markdown table.
"""

import argparse
import hashlib
import http.client
import json
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from orchestrator.journal.record import FileRef
from orchestrator.publish.place import Version, write_version
from orchestrator.sources.simulator.spec import SPEC
from orchestrator.storage.local_store import LocalStore
from scripts.bench.kernel import processor
from scripts.results.readme import BENCH, Tee, replace_block
from trainer.model import Changes, Model, ModelConfig
from trainer.modelfile import save_delta, save_model

ADS = 100
CAMPAIGNS = 5000
CHANGED = 2000
"""Rows that a delta changes."""


class MadeUpPlace:
    """A published place of a made-up model, which changes on request."""

    def __init__(self, folder: Path, vectors: int) -> None:
        self.store = LocalStore(folder)
        self.model = Model(ModelConfig(SPEC, overlap=2, alone=2))
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


def load(port: int, seconds: float, seed: int) -> list[float]:
    """Send one request after the other; the milliseconds of each."""
    rng = np.random.default_rng(seed)
    bodies = [body(rng) for _ in range(50)]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        connection.request("POST", "/v1/score", bodies[len(taken) % 50],
                           {"content-type": "application/json"})  # fmt: skip
        answer = connection.getresponse()
        scored = json.loads(answer.read())
        assert answer.status == 200, scored
        assert len(scored["pctr"]) == ADS
        taken.append(1e3 * (time.perf_counter() - began))
    return taken


def measured(port: int, clients: int, seconds: float, beside: Callable[[], None] | None) -> str:
    """A row of the table."""
    stop = threading.Event()
    changing = threading.Thread(target=_every_second, args=(beside, stop)) if beside else None
    if changing:
        changing.start()
    with ProcessPoolExecutor(clients, get_context("spawn")) as pool:
        parts = list(pool.map(load, [port] * clients, [seconds] * clients, range(clients)))
    stop.set()
    if changing:
        changing.join()
    taken = np.concatenate(parts)
    p50, p99 = np.percentile(taken, [50, 99])
    swaps = "a delta a second" if beside else "none"
    rate = f"{len(taken) / seconds:,.0f}"
    return f"| {clients} | {swaps} | {rate} | {p50:.2f} ms | {p99:.2f} ms | {taken.max():.1f} ms |"


def _every_second(change: Callable[[], None], stop: threading.Event) -> None:
    while not stop.wait(1.0):
        change()


def main() -> None:
    """Serve, send requests, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--readme", action="store_true", help=f"write the table to {BENCH}")
    options = parser.parse_args()
    kept = StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(Tee(kept)):
        source = MadeUpPlace(Path(folder), options.vectors)
        command = [sys.executable, "-c", "from orchestrator.cli import main; main()", "serve",
                   folder, "--port", "0", "--poll-s", "0.1"]  # fmt: skip
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            found = re.search(r":(\d+)$", server.stdout.readline())  # type: ignore[union-attr]
            port = int(found[1])  # type: ignore[index]
            load(port, 1.0, 9)
            print(f"{processor()}, Python {platform.python_version()}, one serving process, "
                  f"{options.vectors:,} vectors, 1 user with {ADS} ads a request\n")  # fmt: skip
            print("| clients | swaps | requests a second | p50 | p99 | longest |")
            print("|---|---|---|---|---|---|")
            for clients in (1, 4):
                for beside in (None, source.change):
                    print(measured(port, clients, options.seconds, beside))
        finally:
            server.terminate()
            server.wait(timeout=30)
    if options.readme:
        replace_block(BENCH, "serve", kept.getvalue())


if __name__ == "__main__":
    main()
