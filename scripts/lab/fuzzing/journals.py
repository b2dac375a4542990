"""Records of cycles and the config of a run folder, also with a right checksum."""

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

from orchestrator.journal.journal import record_path
from orchestrator.storage.checksummed import dumps
from scripts.lab.fuzzing import run_folders
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import Raw, mutated, mutated_bytes, scalar
from scripts.lab.fuzzing.run_folders import ARMS, CYCLES, STEPS, run_files, write_run
from scripts.lab.fuzzing.sandbox import Sandbox
from scripts.lab.fuzzing.shrink import shrunk_bytes, shrunk_inside

LINKS = ("cycle-000001.json", "/etc/passwd", "..", "/dev/null", "missing", "../../config.yaml")
EMPTY = hashlib.sha256().hexdigest()
PATHS = (
    "/dev/null", "../../../../../../../../dev/null", "/etc/passwd", "../../outside",
    "models/../../x", "/dev/zero", "/dev/stdin", "models", "", ".",
    "models/a/cycle-000000.safetensors/", "models/a/\u0000", "a" * 5_000,
    "models/a/cycle-x.safetensors", "journal/a/cycle-000000.json",
)  # fmt: skip


class Journals:
    """One record is changed, often with a right checksum (`sealed`: the body is its JSON)."""

    name, share = "journal", 14

    def generate(self, rng: random.Random) -> Case:
        """A changed record, or a link or pipe in its place."""
        arm, cycle = rng.choice(ARMS), rng.randrange(CYCLES)
        head: dict[str, Any] = {
            "path": record_path(arm, cycle),
            "step": rng.choice(STEPS),
        }
        sealed = run_files()[head["path"]]
        chance = rng.random()
        if chance < 0.003:
            return Case(self.name, b"", head | {"pipe": True})
        if chance < 0.02:
            return Case(self.name, b"", head | {"link": rng.choice(LINKS)})
        if chance < 0.1:
            data = run_files()["config.yaml"]
            return Case(self.name, mutated_bytes(rng, data), head | {"path": "config.yaml"})
        if chance < 0.35:
            return Case(self.name, mutated_bytes(rng, sealed), head)
        body = json.loads(sealed)["record"]
        if rng.random() < 0.15:
            file = rng.choice(body["model"])
            file["path"] = rng.choice(PATHS)
            file["sha256"] = rng.choice((file["sha256"], EMPTY))
        else:
            for _ in range(rng.choice((1, 1, 2))):
                body = mutated(rng, body, _storable)
        return Case(self.name, json.dumps(body).encode(), head | {"sealed": True})

    def run(self, case: Case, box: Sandbox) -> None:
        """Read or resume the run."""
        data = _seal(case.body) if case.head.get("sealed") else case.body
        write_run(box.out / "run", case.head["path"], data, case)
        run_folders.read_run(case, box)

    def command(self, case: Case, box: Sandbox) -> list[str] | None:
        """The same, or the log."""
        return run_folders.command(case, box)

    def simpler(self, case: Case) -> Iterator[Case]:
        """Fewer entries of the record, or fewer bytes."""
        return shrunk_inside(case) if case.head.get("sealed") else shrunk_bytes(case)


def _seal(data: bytes) -> bytes:
    """The record with its checksum; as it is if it cannot have one."""
    try:
        return dumps(json.loads(data))
    except (ValueError, RecursionError):
        return data


def _storable(rng: random.Random) -> Any:
    """A hostile value that JSON can hold."""
    while isinstance(value := scalar(rng), Raw):
        pass
    return value
