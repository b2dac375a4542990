"""Measures one learner on one stream, in a process of its own with one thread on one core.

    python -m scripts.bench.fields.measure TASK.json CORE

writes the runs of all settings of the task to its `out`. `scripts/bench/field.py` starts it.
"""

import gc
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.bench.fields.events import Fields, numbered
from scripts.bench.fields.learner import FieldChunk, FieldSetting, Opening
from scripts.bench.fields.peers import BY_NAME
from scripts.bench.fields.programs import forget_peak, peak_bytes, resident_bytes
from scripts.bench.regrets.peer_setup import chunk_of
from scripts.bench.regrets.streams import Size, Stream, open_stream

MEGABYTE = 1e6


@dataclass(frozen=True, slots=True)
class MeasureTask:
    """A learner with some settings on a stream, or on the first part of it."""

    peer: str
    stream: str
    seed: int
    cycles: int
    events: int
    chunks: int
    """Of these only; 0: all."""
    settings: list[FieldSetting]
    programs: dict[str, str]
    data: str
    out: str


@dataclass(frozen=True, slots=True)
class FieldRun:
    """What one setting gave on a stream, chunk by chunk."""

    setting: FieldSetting
    events: list[int]
    constant: list[float]
    """The log-loss of a constant CTR."""
    served: list[float | None]
    """The log-loss of what would have been served; None where there was no model yet."""
    cpu_s: float
    trained: int
    """The events that `cpu_s` is for."""
    memory_mb: float
    lost: int = 0
    """The chunks from which nothing was kept, since training on them diverged."""

    def gain(self, first: int = 1) -> float:
        """How far served log-loss lies below that of a constant CTR, from a chunk on."""
        rows = list(zip(self.events, self.constant, self.served, strict=True))[first:]
        served = sum(n * (constant if own is None else own) for n, constant, own in rows)
        return 1.0 - served / sum(n * constant for n, constant, _ in rows)

    @property
    def events_a_second(self) -> float:
        """Of training, by CPU time."""
        return self.trained / self.cpu_s


def measured(task: MeasureTask) -> list[FieldRun]:
    """Run all settings, one after the other."""
    size = Size(task.cycles, task.events)
    stream = open_stream(task.stream, task.seed, size, Path(task.data))
    fields, chunks = field_chunks(stream, task.chunks)
    warm_up(task, stream, fields, chunks[:2])
    return [_run(task, stream, fields, chunks, setting) for setting in task.settings]


def field_chunks(stream: Stream, only: int = 0) -> tuple[Fields, list[FieldChunk]]:
    """The chunks of a stream in all forms; values are numbered over the whole stream."""
    fields, events = numbered([chunk_of(one) for one in stream.chunks], stream.spec)
    made = []
    for own, prepared in list(zip(events, stream.chunks, strict=True))[: only or None]:
        source = stream.events(prepared.cycle)
        assert source is not None
        made.append(FieldChunk(own, prepared, source.table))
    return fields, made


def warm_up(
    task: MeasureTask, stream: Stream, fields: Fields, chunks: Sequence[FieldChunk]
) -> None:
    """Compile and load what is not the learner's own, so that it is in no time and no memory."""
    with tempfile.TemporaryDirectory() as folder:
        opening = Opening(stream, fields, task.settings[0], task.seed, task.programs, folder)
        learner = BY_NAME[task.peer].open(opening)
        for chunk in chunks:
            learner.step(chunk)


def _run(
    task: MeasureTask,
    stream: Stream,
    fields: Fields,
    chunks: Sequence[FieldChunk],
    setting: FieldSetting,
) -> FieldRun:
    peer = BY_NAME[task.peer]
    with tempfile.TemporaryDirectory() as folder:
        opening = Opening(stream, fields, setting, task.seed, task.programs, folder)
        gc.collect()
        forget_peak()
        before = resident_bytes()
        learner = peer.open(opening)
        steps = [learner.step(chunk) for chunk in chunks]
        memory = learner.peak_bytes or max(0, peak_bytes() - before)
    infos = [chunk.prepared.info for chunk in chunks]
    return FieldRun(
        setting,
        [info.events for info in infos],
        [info.constant_logloss for info in infos],
        [step.logloss for step in steps],
        sum(step.cpu_s for step in steps),
        sum(step.trained for step in steps),
        memory / MEGABYTE,
        learner.lost,
    )


def main(path: str) -> None:
    """Read a task, run it, write what it gave: all or nothing."""
    task = MeasureTask(**json.loads(Path(path).read_text(encoding="utf-8")))
    found = [asdict(run) for run in measured(task)]
    out = Path(task.out)
    beside = out.with_suffix(".tmp")
    beside.write_text(json.dumps(found), encoding="utf-8")
    beside.replace(out)


if __name__ == "__main__":
    if int(sys.argv[2]) >= 0 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(sys.argv[2])})
    main(sys.argv[1])
