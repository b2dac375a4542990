"""What the field's benchmark runs: streams, searches, reports; each as a process with a file."""

import hashlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.bench.fields.learner import FieldSetting
from scripts.bench.fields.measure import FieldRun, MeasureTask
from scripts.bench.fields.peers import BY_NAME
from scripts.bench.regrets.streams import Size
from scripts.results.readme import ROOT

START_S = 3.5
"""What a process takes before it trains, about."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
)
Say = Callable[[str], None]


class TaskError(RuntimeError):
    """A process failed; the text says which, and the last line that it wrote."""


@dataclass(frozen=True, slots=True)
class FieldStream:
    """A stream, and how it is divided into search and report."""

    name: str
    size: Size
    search_seed: int
    seeds: tuple[int, ...]
    search_chunks: int = 0
    """The search reads these only, and the report counts those after them; 0: another seed."""
    events: int = 0
    """About so many in all."""

    @property
    def first(self) -> int:
        """The first chunk that counts in the report."""
        return self.search_chunks or 1


@dataclass(frozen=True)
class Machine:
    """Where tasks run and what they need."""

    out: Path
    data: Path
    programs: dict[str, str]
    processes: int
    say: Say

    def run(self, tasks: Sequence[MeasureTask], title: str, at_once: int = 0) -> None:
        """Run the tasks that have no result yet, each on a core of its own; say how far it is."""
        missing = [task for task in tasks if not Path(task.out).exists()]
        missing.sort(key=cost_s, reverse=True)
        at_once, all_s, done_s = at_once or self.processes, sum(map(cost_s, missing)), 0.0
        began, cores = time.monotonic(), _cores(at_once)
        with ThreadPoolExecutor(at_once) as pool:
            work = {pool.submit(_start, task, cores): task for task in missing}
            try:
                for number, future in enumerate(as_completed(work), 1):
                    future.result()
                    done_s += cost_s(work[future])
                    spent = time.monotonic() - began
                    left = max(0.0, spent * (all_s / done_s - 1.0))
                    head = f"[{title} {number}/{len(missing)}, {spent / 60:.1f} min"
                    self.say(f"{head}, about {left / 60:.1f} left] {described(work[future])}")
            except BaseException:
                _cancel(work)
                raise

    def task(
        self, peer: str, stream: FieldStream, seed: int, settings: Iterable[FieldSetting], only: int
    ) -> MeasureTask:
        """A task whose file is named after all that its result depends on."""
        chosen = list(settings)
        version = BY_NAME[peer].version(self.programs)
        key = json.dumps([chosen, version, asdict(stream.size), only])
        digest = hashlib.sha256(key.encode()).hexdigest()[:10]
        out = self.out / f"{peer}-{stream.name}-{seed}-{digest}.json"
        size = stream.size
        return MeasureTask(
            peer,
            stream.name,
            seed,
            size.cycles,
            size.events,
            only,
            chosen,
            self.programs,
            str(self.data),
            str(out),
        )


def batches(settings: Sequence[FieldSetting], size: int = 3) -> list[list[FieldSetting]]:
    """Settings that one process runs: a process takes seconds to start."""
    return [list(settings[i : i + size]) for i in range(0, len(settings), size)]


def read_runs(task: MeasureTask) -> list[FieldRun]:
    """What a task gave."""
    return [FieldRun(**one) for one in json.loads(Path(task.out).read_text(encoding="utf-8"))]


def cost_s(task: MeasureTask) -> float:
    """About how long a task takes on a quiet core."""
    chunks = task.chunks or task.cycles
    events = chunks * task.events
    return START_S + BY_NAME[task.peer].cost_us * 1e-6 * events * len(task.settings)


def described(task: MeasureTask) -> str:
    """One line for the person who waits."""
    gains = [run.gain() for run in read_runs(task)]
    best = max(gains, default=float("nan"))
    return f"{task.peer} on {task.stream} {task.seed}: gain {best:.2%}"


def _cores(at_once: int) -> "queue.SimpleQueue[int]":
    """The cores that processes take turns on."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    cores: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(at_once):
        cores.put(allowed[i % len(allowed)] if allowed else -1)
    return cores


def _start(task: MeasureTask, cores: "queue.SimpleQueue[int]") -> None:
    core = cores.get()
    try:
        _run_process(task, core)
    finally:
        cores.put(core)


def _run_process(task: MeasureTask, core: int) -> None:
    Path(task.out).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.json"
        path.write_text(json.dumps(asdict(task)), encoding="utf-8")
        command = [sys.executable, "-m", "scripts.bench.fields.measure", str(path), str(core)]
        environment = {**os.environ, **ONE_THREAD}
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise TaskError(f"{task.peer} on {task.stream}, seed {task.seed}: {last}")


def _cancel(work: Iterable["Future[None]"]) -> None:
    for future in work:
        future.cancel()
