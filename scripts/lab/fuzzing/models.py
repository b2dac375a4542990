"""Model files and deltas, also with a right checksum within the file and in the record."""

import hashlib
import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors import deserialize
from safetensors.numpy import save

from orchestrator.journal.journal import model_path, record_path
from orchestrator.storage.checksummed import dumps
from scripts.lab.fuzzing import run_folders
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import mutated, mutated_bytes, scalar
from scripts.lab.fuzzing.run_folders import CYCLES, run_files, write_run
from scripts.lab.fuzzing.sandbox import Sandbox
from scripts.lab.fuzzing.shrink import shrunk_bytes, shrunk_inside
from trainer.modelfile import MANIFEST, _checksum

STEPS = ("champion", "champion", "serve", "resume")
LINKS = ("/etc/passwd", "cycle-000000.safetensors", "/dev/null", "missing", "..")
DTYPES = {"F32": "<f4", "F64": "<f8", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1"}
SHAPES: tuple[tuple[int, ...], ...] = ((0,), (1,), (3,), (2, 2), (0, 3, 8), (1, 1, 1), (2, 3, 1))
NUMBERS = (0, 1, -1, 127, -128)


class Models:
    """A model of arm a is changed; its record names the checksum of what is there.

    `sealed`: the body is the file's contents as JSON, and the file has a right checksum within.
    """

    name, share = "model", 12

    def generate(self, rng: random.Random) -> Case:
        """Changed bytes, or changed tensors and manifest in a file with a right checksum."""
        cycle = rng.randrange(CYCLES)
        head: dict[str, Any] = {
            "path": model_path("a", cycle, cycle > 0),
            "step": rng.choice(STEPS),
        }
        data = run_files()[head["path"]]
        chance = rng.random()
        if chance < 0.02:
            return Case(self.name, b"", head | {"link": rng.choice(LINKS)})
        if chance < 0.4:
            for _ in range(rng.choice((1, 1, 3))):
                at = rng.choice((0, 8, 0, len(data) // 2))
                data = data[:at] + mutated_bytes(rng, data[at:])
            return Case(self.name, data, head)
        return Case(self.name, _changed_inside(rng, data), head | {"sealed": True})

    def run(self, case: Case, box: Sandbox) -> None:
        """Read the champion, from the newest record that names this file."""
        folder = box.out / "run"
        data = _model_file(case.body) if case.head.get("sealed") else case.body
        write_run(folder, case.head["path"], data, case)
        checksum = hashlib.sha256(data).hexdigest()
        for cycle in range(CYCLES):
            path = record_path("a", cycle)
            body = json.loads(run_files()[path])["record"]
            for file in body["model"]:
                if file["path"] == case.head["path"]:
                    file |= {"sha256": checksum, "size": len(data)}
            (folder / path).write_bytes(dumps(body))
        run_folders.read_run(case, box)

    def command(self, case: Case, box: Sandbox) -> list[str] | None:
        """The log of the run."""
        return run_folders.command(case, box)

    def simpler(self, case: Case) -> Iterator[Case]:
        """Fewer entries of the contents, or fewer bytes."""
        return shrunk_inside(case) if case.head.get("sealed") else shrunk_bytes(case)


def _changed_inside(rng: random.Random, data: bytes) -> bytes:
    """The contents of a model file as JSON, with changed tensors or manifest."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    manifest = json.loads(header["__metadata__"][MANIFEST])
    manifest.pop("sha256")
    parts = dict(deserialize(data))  # type: ignore[no-untyped-call]
    tensors: dict[str, Any] = {
        name: np.frombuffer(part["data"], DTYPES[part["dtype"]]).reshape(part["shape"])
        for name, part in sorted(parts.items())  # safetensors gives them in any order
    }
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.4:
            manifest = mutated(rng, manifest, scalar)
        elif tensors:
            name = rng.choice(sorted(tensors))
            changed = _changed_tensor(rng, tensors.pop(name))
            if changed is not None:
                tensors[name if rng.random() < 0.95 else f"{name}.x"] = changed
    entries = {name: [a.dtype.str, a.shape, a.tobytes().hex()] for name, a in tensors.items()}
    return json.dumps({"manifest": manifest, "tensors": entries}).encode()


def _model_file(contents: bytes) -> bytes:
    """The model file of contents in JSON, with a right checksum; as it is if it cannot have one."""
    try:
        body = json.loads(contents)
        tensors: dict[str, Any] = {
            name: np.frombuffer(bytes.fromhex(data), dtype).reshape(shape)
            for name, (dtype, shape, data) in body["tensors"].items()
        }
        checked = body["manifest"] | {"sha256": _checksum(tensors, body["manifest"])}
        return bytes(save(tensors, {MANIFEST: json.dumps(checked, sort_keys=True)}))
    except (TypeError, ValueError, KeyError):
        return contents


def _changed_tensor(rng: random.Random, array: Any) -> Any:
    chance = rng.random()
    if chance < 0.1:
        return None
    if chance < 0.3:
        return np.full(
            rng.choice(SHAPES), rng.choice(NUMBERS), array.dtype if array.dtype != "u1" else "i2"
        )
    if chance < 0.5:
        return array.astype(rng.choice(("<f4", "<f8", "<i2", "<i4", "<i8")))
    if chance < 0.6:
        return np.concatenate([array, array])
    new = array.copy().reshape(-1)
    if len(new):
        bad = (np.nan, np.inf, -1e30) if new.dtype.kind == "f" else (np.iinfo(new.dtype).max, 0, 3)
        new[rng.randrange(len(new))] = rng.choice(bad)
    return new.reshape(array.shape)
