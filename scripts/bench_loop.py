"""The cycle loop against its own kernels, a process pool, Ray Tune, and a larger model.

Every figure is a ratio of two things measured in this run. Prints a Markdown table.
Parts: efficiency, pool, tune, size (default: all).
"""

import argparse
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from multiprocessing import get_context
from typing import Any

import numpy as np

from orchestrator.config import RunConfig
from orchestrator.config_file import read_config
from orchestrator.ray_env import local_environment

local_environment()

from orchestrator.line import Line, model_config  # noqa: E402
from orchestrator.ray_start import cores, started_ray  # noqa: E402
from orchestrator.record import CycleRecord  # noqa: E402
from orchestrator.rules import kernel_rule  # noqa: E402
from orchestrator.run import run  # noqa: E402
from orchestrator.search import draw, generator  # noqa: E402
from orchestrator.sources.opening import open_source  # noqa: E402
from orchestrator.store import open_store  # noqa: E402
from trainer.chunk import Chunk, compile_chunk  # noqa: E402
from trainer.instance import Buffers, Job, train  # noqa: E402
from trainer.kernel import Tables  # noqa: E402
from trainer.model import Model  # noqa: E402
from trainer.outcome import Status  # noqa: E402
from trainer.setting import Setting  # noqa: E402

CONFIG = """
seed: 1
source: {kind: simulator, preset: normal, daily_swing: 0, weekly_swing: 0}
search:
  sampler: random
  ranges: {eta0: {low: 0.1, high: 0.5}, alpha: 3, beta: 0.5}
arms: [{name: only, rule: l2}]
"""
SETTING = Setting(eta0=0.3, alpha=3.0, beta=0.5, lam=1e-3)
INSTANCES = 40
Row = tuple[str, str, str]


class Records:
    """A view that keeps the records."""

    def __init__(self) -> None:
        self.records: list[CycleRecord] = []

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def show(self, records: Sequence[CycleRecord]) -> None:
        """Keep them."""
        self.records += records

    def say(self, message: str) -> None:
        """Nothing of interest."""


def config_of(events: int, cycles: int, instances: int = INSTANCES) -> RunConfig:
    """A run of one arm whose instances all survive."""
    sizes = (f"source.events_per_cycle={events}", f"cycles={cycles}")
    return read_config(CONFIG, "bench", (*sizes, f"search.instances={instances}"))


def chunks_of(config: RunConfig) -> list[Chunk]:
    """The run's chunks."""
    source = open_source(config.source, None)
    tables = (source.events(cycle) for cycle in range(config.cycles or 1))
    return [compile_chunk(events.table, source.spec) for events in tables if events is not None]


def line_of(config: RunConfig) -> tuple[Line, Job]:
    """The run's only arm, before its first cycle."""
    source = open_source(config.source, None)
    line = Line(config, config.arms[0], Model(model_config(config, source.spec)))
    return line, Job(source.spec, line.model.shape, config.model.tau)


def events_for(seconds: float) -> int:
    """How many events an instance trains on in so many seconds, here and now."""
    config = config_of(20_000, 1)
    line, job = line_of(config)
    (chunk,) = chunks_of(config)
    start, rule, room = line.gather(0, chunk).tables, kernel_rule(line.arm.rule, SETTING), Buffers()
    took = min(
        train(job, chunk, start, SETTING, rule, buffers=room).outcome.seconds for _ in range(8)
    )
    return round(20_000 * seconds / took)


def loop(config: RunConfig, folder: str) -> tuple[float, float, float]:
    """(wall, kernel, kernel of one instance) seconds of all cycles but the first."""
    view = Records()
    run(config, open_store(folder), view, cores())
    after = view.records[1:]
    begin, last = (datetime.fromisoformat(r.started).timestamp() for r in (after[0], after[-1]))
    wall = last - begin + after[-1].timings["cycle"]
    seconds = [o.seconds for r in after for o in r.outcomes]
    assert all(o.status is Status.RETAINED for r in after for o in r.outcomes)
    return wall, sum(seconds), float(np.median(seconds))


def efficiency() -> list[Row]:
    """Kernel seconds over cores times wall seconds."""
    rows = []
    for target, cycles, least in ((0.1, 8, 0.95), (0.01, 25, 0.90)):
        with tempfile.TemporaryDirectory() as folder:
            wall, kernel, each = loop(config_of(events_for(target), cycles), folder)
        share = kernel / (cores() * wall)
        what = f"efficiency, {INSTANCES} instances of {each * 1e3:.0f} ms a cycle"
        rows.append((what, f"{share:.3f}", f">= {least}"))
    return rows


# -- a bare process pool --------------------------------------------------------------------------

_work: dict[str, Any] = {}


def _load(job: Job, chunk: Chunk, start: Tables) -> None:
    _work.update(job=job, chunk=chunk, start=start, room=_work.get("room") or Buffers())


def _pool_train(task: tuple[int, Any, Any]) -> float:
    w = _work
    instance, setting, rule = task
    trained = train(w["job"], w["chunk"], w["start"], setting, rule, instance=instance,
                    buffers=w["room"])  # fmt: skip
    return trained.outcome.logloss


def bare_pool(config: RunConfig) -> float:
    """Wall seconds of the same kernels in a process pool: no models, no journal, no faults.

    Forked for every cycle, so that chunk and rows are there without being sent; that is not timed.
    """
    line, job = line_of(config)
    wall = 0.0
    for cycle, chunk in enumerate(chunks_of(config)):
        plan = line.plan(cycle, chunk, draw(config, cycle, generator(config.seed, cycle)), None)
        _load(job, chunk, plan.working_set.tables)
        tasks = [(t.instance, t.setting, t.rule) for t in plan.tasks]
        _pool_train(tasks[0])
        with get_context("fork").Pool(cores()) as pool:
            pool.map(_pool_train, tasks[:4], chunksize=1)
            begin = time.perf_counter()
            pool.map(_pool_train, tasks, chunksize=1)
            wall += time.perf_counter() - begin
    return wall


def against_pool() -> list[Row]:
    """The whole loop over the bare kernels in a pool."""
    config = config_of(events_for(0.05), 11)
    with tempfile.TemporaryDirectory() as folder:
        ours, _, each = loop(config, folder)
    pool = bare_pool(config) * 10 / 11
    what = f"loop / bare process pool, 10 cycles of {INSTANCES} instances of {each * 1e3:.0f} ms"
    return [(what, f"{ours / pool:.2f}", "<= 1.10")]


def main() -> None:
    """Run the parts that were asked for."""
    parts = {"efficiency": efficiency, "pool": against_pool}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[])
    chosen = parser.parse_args().part or list(parts)
    print(f"{platform.processor() or platform.machine()}, {cores()} cores, "
          f"load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}\n")  # fmt: skip
    print("| what | measured | wanted |\n|---|---|---|")
    with started_ray(None, cores(), verbose=False):
        for part in chosen:
            for row in parts[part]():
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
