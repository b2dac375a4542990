"""Lease files of a run folder."""

import random
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from orchestrator.storage.lease import LeaseTiming, current_lease, hold_lease, holder_is_alive
from orchestrator.storage.local_store import LocalStore
from orchestrator.storage.process import this_process
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import mutated, mutated_bytes, render, scalar
from scripts.lab.fuzzing.run_folders import write_run
from scripts.lab.fuzzing.sandbox import Sandbox
from scripts.lab.fuzzing.shrink import shrunk_bytes

NAMES = (
    "000001.json", "000001.json", "000001.json", "000007.json", "999999.json", "1.json", "x.json",
    "9999999999999999999.json", "٣.json", "²2.json", "000001.0123456789abcdef.1", ".json", "0.json",
    "9" * 200 + ".json",
)  # fmt: skip
LINKS = ("000001.json", "/etc/passwd", "..", "missing", "/dev/null")
TIMING = LeaseTiming(heartbeat_s=0.001, expires_after_s=0.005)


class Leases:
    """A driver starts in the folder, or somebody asks who holds the lease."""

    name, share = "lease", 6

    def generate(self, rng: random.Random) -> Case:
        """A lease with hostile values or bytes."""
        head = {"name": rng.choice(NAMES), "step": rng.choice(("hold", "look"))}
        chance = rng.random()
        if chance < 0.002:
            return Case(self.name, b"", head | {"pipe": True})
        if chance < 0.02:
            return Case(self.name, b"", head | {"link": rng.choice(LINKS)})
        dead = {"pid": 4_194_303, "begun": "1"}  # a number above those that Linux gives
        body: Any = asdict(this_process()) | dead | {"since": "2024-05-01T12:00:00+00:00"}
        for _ in range(rng.choice((1, 1, 2))):
            body = mutated(rng, body, scalar)
        data = render(body).encode("utf-8", "surrogatepass")
        return Case(self.name, mutated_bytes(rng, data) if rng.random() < 0.3 else data, head)

    def run(self, case: Case, box: Sandbox) -> None:
        """Look at the lease, or take it."""
        write_run(box.out / "run", f"claims/{case.head['name']}", case.body, case)
        store = LocalStore(box.out / "run")
        box.step(lambda: _hold(store) if case.head["step"] == "hold" else _look(store))

    def command(self, case: Case, box: Sandbox) -> list[str] | None:
        """None: `holdfast health` waits for heartbeats."""
        return None

    def simpler(self, case: Case) -> Iterator[Case]:
        """Fewer bytes."""
        return shrunk_bytes(case)


def _hold(store: LocalStore) -> None:
    with hold_lease(store, _silent, TIMING) as leased:
        leased.create("models/a/new", b"x")


def _look(store: LocalStore) -> None:
    lease = current_lease(store)
    if lease is not None:
        str(lease).encode("utf-8", "backslashreplace")
        holder_is_alive(store, lease, _silent, TIMING)


def _silent(message: str) -> None:
    """Where messages for the user go."""
