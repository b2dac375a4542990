"""One training instance: its own copy of the working set, one pass over the chunk, an outcome."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.detector import norms, worst_vector
from divergence.errors import InputError
from divergence.jit import compiling
from divergence.lanemath import CONSTANTS
from divergence.rules import Rule
from divergence.simd import padded
from trainer.chunk import Chunk
from trainer.features import FeatureSpec
from trainer.geometry import Shape
from trainer.kernel import EventRows, Rates, Tables, total_loss, train_block
from trainer.model import vectors_of
from trainer.outcome import Divergence, Outcome, Status
from trainer.setting import Setting
from trainer.static_shape import StaticShape

BLOCK = 8192  # events between two calls of `stop`: a few milliseconds
ALIGNMENT = 64  # bytes of a cache line
TAU = 15.0  # the paper's


@dataclass(frozen=True, slots=True)
class Job:
    """What all instances of an arm have in common."""

    spec: FeatureSpec
    shape: Shape
    tau: float = TAU
    reference: bool = False  # powers of reference accuracy, some 10% slower


class Buffers:
    """Memory for an instance's tables, used again by the next instance.

    New memory costs more than the copy into it: the system maps it page by page.
    """

    def __init__(self) -> None:
        """Empty; grows with the working sets."""
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def copy_of(self, tables: Tables) -> Tables:
        """A writable copy, each array aligned to a cache line. The last copy is overwritten."""
        return Tables(*(self._copy(n, a) for n, a in zip(Tables._fields, tables, strict=True)))

    def margins(self, events: int) -> NDArray[np.float32]:
        """Memory for one margin per event, padded as `total_loss` needs it."""
        margin = self.take("margin", padded(events), np.dtype(np.float32))
        margin[events:] = -1e30
        return margin

    def _copy(self, name: str, array: Any) -> Any:
        copy = self.take(name, len(array), array.dtype)
        copy[:] = array
        return copy

    def take(self, name: str, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Memory under this name, aligned; what was there before is overwritten."""
        size = length * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size + ALIGNMENT:
            memory = self._memory[name] = np.zeros(size * 5 // 4 + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        return memory[first : first + size].view(dtype)


@dataclass(frozen=True)
class Trained:
    """An outcome, and the rows after training (after the diverging step, if it diverged)."""

    outcome: Outcome
    tables: Any
    """`Tables`, or the state of another trainer."""


def train(
    job: Job,
    chunk: Chunk,
    start: Tables,
    setting: Setting,
    rule: Rule,
    *,
    instance: int = 0,
    buffers: Buffers | None = None,
    stop: Callable[[], bool] | None = None,
    in_place: bool = False,
) -> Trained:
    """Train one instance. It ends as late if `stop`, called every few milliseconds, returns True.

    The tables of the result are in `buffers`: training the next instance overwrites them. With
    `in_place` they are `start` itself.
    """
    check_setting(setting, job.tau)
    buffers = buffers or Buffers()
    eta0, alpha, beta = map(float, setting.steps)
    rates = Rates(eta0, alpha, beta, float(job.tau), job.reference)
    warm_up(job, rule)
    begin = time.perf_counter()
    tables = start if in_place else buffers.copy_of(start)
    margin = buffers.margins(len(chunk))
    shape = StaticShape(job.shape)
    done, bad, status = 0, -1, Status.RETAINED
    while done < len(chunk) and bad < 0:
        if stop is not None and stop():
            status = Status.LATE
            break
        last = min(done + BLOCK, len(chunk))
        bad = train_block(
            chunk.click,
            chunk.users,
            chunk.ads,
            tables,
            shape,
            rates,
            rule,
            done,
            last,
            margin,
            CONSTANTS,
        )
        done = last if bad < 0 else bad + 1
    margin[done:] = -1e30
    loss = float(total_loss(margin, done, CONSTANTS)) / done if done else float("nan")
    seconds = time.perf_counter() - begin
    divergence = None
    if bad >= 0:
        status, divergence = Status.DIVERGED, _divergence(job, chunk, tables, bad)
    outcome = Outcome(
        instance,
        setting,
        status,
        loss,
        done,
        seconds,
        divergence,
        _reason(status, divergence, done),
    )
    return Trained(outcome, tables)


def check_setting(setting: Setting, tau: float) -> None:
    """Raise `InputError` for an invalid step size or threshold."""
    eta0, alpha, beta = setting.steps
    rules = (
        ("eta0", eta0, eta0 > 0, "> 0"),
        ("alpha", alpha, alpha > 0, "> 0"),
        ("beta", beta, 0 <= beta <= 2, "between 0 and 2"),
        ("tau", tau, tau > 0, "> 0"),
    )
    for name, value, holds, rule in rules:
        if not (np.isfinite(value) and holds):
            raise InputError(f"{name} must be {rule}, but is {value}")


_warm: set[tuple[Shape, type]] = set()


def warm_up(job: Job, rule: Rule) -> float:
    """Compile (or load) the kernel for this shape and rule; return the seconds it took.

    Processes of one machine do so one after the other: the first compiles, the others load.
    """
    key = (job.shape, type(rule))
    if key in _warm:
        return 0.0
    begin = time.perf_counter()
    with compiling():
        _train_on_no_events(job, rule)
    _warm.add(key)
    return time.perf_counter() - begin


def _train_on_no_events(job: Job, rule: Rule) -> None:
    """Call the kernels once, with arrays of the types that `train` passes."""
    shape = StaticShape(job.shape)
    rows, tables = empty_inputs()
    click, real = np.zeros(0, np.uint8), np.zeros(0, np.float32)
    click.setflags(write=False)
    rates = Rates(1.0, 1.0, 0.5, float(job.tau), job.reference)
    train_block(click, rows, rows, tables, shape, rates, rule, 0, 0, real, CONSTANTS)
    total_loss(real, 0, CONSTANTS)


def empty_inputs() -> tuple[EventRows, Tables]:
    """No events (read-only, as in a chunk) and no rows: arguments that only compile a kernel."""
    integers, reals = np.zeros(0, np.int32), np.zeros(0, np.float32)
    rows = EventRows(np.zeros(1, np.int64), integers.copy(), integers.copy(), reals.copy())
    for array in rows:
        array.setflags(write=False)
    return rows, Tables(reals, reals, reals, reals, np.zeros(2))


def _divergence(job: Job, chunk: Chunk, tables: Tables, event: int) -> Divergence:
    """The worst vector among those that the event updated."""
    worst, largest = ("bias", "", float(abs(tables.bias[0]))), -1.0
    users, ads = vectors_of(tables, job.shape)
    for slots, keys, vectors in (
        (chunk.users, chunk.user_keys, users),
        (chunk.ads, chunk.ad_keys, ads),
    ):
        touched = slots.row[slots.start[event] : slots.start[event + 1]]
        at = worst_vector(vectors[touched], job.tau)
        if at is not None:
            row = int(touched[at])
            norm = float(norms(vectors[row : row + 1]).inf[0])
            size = norm if np.isfinite(norm) else np.inf
            if size > largest:
                name = job.spec.features[int(keys.feature[row])].name
                worst, largest = (name, str(keys.value[row]), norm), size
    return Divergence(event, *worst)


def _reason(status: Status, divergence: Divergence | None, done: int) -> str:
    if divergence is not None:
        vector = f"{divergence.feature}={divergence.value or '(missing)'}"
        return f"{vector} reached {divergence.norm:.4g} at event {divergence.event}"
    return f"stopped after {done} events" if status is Status.LATE else ""
