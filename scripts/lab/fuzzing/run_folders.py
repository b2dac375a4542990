"""A small run folder, made without training, in which one file is replaced by the input."""

import functools
import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from divergence.errors import InputError
from orchestrator.config.file import read_config
from orchestrator.config.schema import RunConfig, config_hash, feature_spec
from orchestrator.journal.journal import model_path, newest_committed, record_path
from orchestrator.journal.models import model_config
from orchestrator.journal.record import ChampionNorms, ChunkInfo, CycleRecord, FileRef, encode
from orchestrator.journal.run_folder import prepare, run_config
from orchestrator.offline.score_files import champion_of
from orchestrator.publish.origin import open_origin
from orchestrator.search.sampler import SearchState
from orchestrator.serving.scorer import Scorer
from orchestrator.storage.open import open_store
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.sandbox import Failure, Sandbox
from trainer.model import Changes, Model, Side
from trainer.modelfile import save_delta, save_model
from trainer.outcome import Divergence, Outcome, Status
from trainer.setting import Setting

ARMS = ("a", "b")
CYCLES = 3
CONFIG = """
source: {kind: files, path: events.csv, cut: {events: 10}}
features:
  user: [age, {name: interests, multi: true, weights: shares}]
  ad: [ad, category]
arms: [{name: a, rule: l2}, {name: b}]
"""
SETTING = Setting(eta0=1.0, alpha=3.0, beta=0.5, lam=0.001)
STEPS = ("log", "log --json", "health --json", "champion", "resume", "serve")


@functools.cache
def run_files() -> Mapping[str, bytes]:
    """The files of the run, by path."""
    config = read_config(CONFIG, "run.yaml")
    files = {"config.yaml": CONFIG.encode()}  # a short one: it is read for every input
    for arm in ARMS:
        model, refs = _model(config), []
        for cycle in range(CYCLES):
            changes = _train(model, cycle)
            path = model_path(arm, cycle, delta=cycle > 0)
            data = save_delta(model, changes) if cycle else save_model(model)
            refs.append(FileRef(path, hashlib.sha256(data).hexdigest(), len(data)))
            files[path] = data
            files[record_path(arm, cycle)] = encode(_record(config, arm, cycle, tuple(refs)))
    return files


def _model(config: RunConfig) -> Model:
    spec = feature_spec(config.features)
    assert spec is not None
    return Model(model_config(config, spec))


def _train(model: Model, cycle: int) -> Changes:
    """Add two values to each side, and drop one from the third cycle on."""
    since, rows = model.cycle, []
    for first, side, length in ((0, model.user, model.shape.user), (2, model.ad, model.shape.ad)):
        at = side.insert((first + i, f"value {cycle}.{i}") for i in range(2))
        _write(side, at, length, cycle)
        rows.append(at)
    dropped = ((0, "value 0.0"),) if cycle == 2 else ()
    model.drop(dropped)
    model.cycle = cycle
    return Changes(since, rows[0], rows[1], dropped)


def _write(side: Side, at: Any, length: int, cycle: int) -> None:
    vectors = np.zeros((len(at), *side.rows.shape[1:]), np.float32)
    vectors[:, :, :length] = 0.1
    side.write(at, vectors, np.zeros(len(at), np.float32), length)
    side.updates[at] = 5
    side.touch(at, cycle)


def _record(config: RunConfig, arm: str, cycle: int, files: tuple[FileRef, ...]) -> CycleRecord:
    lost = Outcome(
        1, SETTING, Status.DIVERGED, math.nan, 12, 0.1, Divergence(12, "age", "é", math.inf), "tau"
    )
    return CycleRecord(
        driver="d1",
        config_hash=config_hash(config),
        seed=0,
        arm=arm,
        cycle=cycle,
        started=f"2024-05-01T12:{cycle:02d}:00+00:00",
        chunk=ChunkInfo("rows 1 to 10", 10, 2, 0.51, {"label is null": 2}),
        outcomes=(Outcome(0, SETTING, Status.RETAINED, 0.2, 10, 0.25), lost),
        winner=0,
        model=files,
        served_logloss=0.21,
        norms=ChampionNorms(max_inf=2.5, top10_inf=1.5, max_msqr=0.4),
        caution=0,
        search=SearchState(SETTING, 0),
        timings={"cycle": 1.5, "train": 1.2},
    )


def write_run(folder: Path, replaced: str, data: bytes, case: Case) -> None:
    """Write the run with one file replaced by `data`, or by a link or pipe if the case says so."""
    for name, content in {**run_files(), replaced: data}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name == replaced and case.head.get("link") is not None:
            path.symlink_to(case.head["link"])
        elif name == replaced and case.head.get("pipe"):
            os.mkfifo(path)
        else:
            path.write_bytes(content)


def read_run(case: Case, box: Sandbox) -> None:
    """One of the ways to read a run folder; the case says which."""
    uri, step = str(box.out / "run"), case.head["step"]
    if step.startswith(("log", "health")):
        command, *options = step.split()
        box.command(command, uri, *options, codes=(0, 2, 3, 4) if command == "health" else (0, 2))
        return
    box.step({"champion": _champions, "resume": _resume, "serve": _serve}[step].__get__(uri))


def command(case: Case, box: Sandbox) -> list[str] | None:
    """The arguments of `holdfast` for the same folder."""
    name, *options = case.head["step"].split()
    uri = str(box.out / "run")
    return [name, uri, *options] if name in ("log", "health") else ["log", uri]


def _champions(uri: str) -> None:
    store = open_store(uri)
    config = run_config(store)
    found = newest_committed(store, {arm.name: arm.first_cycle for arm in config.arms})
    for record in found.records.values():
        for file in record.model:
            if file.path.startswith("/") or ".." in file.path.split("/"):
                raise Failure("a record names a file outside of the run folder", file.path)
    for arm in config.arms:
        champion_of(store, config, arm.name, None)


def _resume(uri: str) -> None:
    store = open_store(uri)
    prepare(store, run_config(store))


def _serve(uri: str) -> None:
    try:
        Scorer(open_origin(uri))
    except InputError as error:
        if "no model that can be served" not in str(error):
            raise
