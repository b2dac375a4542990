"""The cycle loop against its own kernels, a process pool, Ray Tune, and a larger model.

    .venv/bin/python scripts/bench/loop.py [PART ...] [--quick] [--readme]

Every figure is a ratio of two things measured in this run. Prints a Markdown table.
Parts: efficiency, pool, tune, size, lines (default: all).
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from orchestrator.config.file import read_config
from orchestrator.config.schema import RunConfig, config_hash
from orchestrator.pool.ray_env import local_cores, local_environment

local_environment()

from divergence.rules import Rule  # noqa: E402
from orchestrator.config.rules import kernel_rule  # noqa: E402
from orchestrator.journal.models import model_config  # noqa: E402
from orchestrator.journal.record import ChunkInfo, CycleRecord  # noqa: E402
from orchestrator.journal.run_folder import prepare  # noqa: E402
from orchestrator.loop.arm_state import ArmState, Plan  # noqa: E402
from orchestrator.loop.committer import Committer, PendingCommit  # noqa: E402
from orchestrator.loop.prefetch import PreparedChunk  # noqa: E402
from orchestrator.loop.run import run  # noqa: E402
from orchestrator.pool.lines.local_pool import LocalLinePool  # noqa: E402
from orchestrator.pool.lines.ray_pool import RayLinePool  # noqa: E402
from orchestrator.pool.local_pool import LocalPool  # noqa: E402
from orchestrator.pool.protocol import MakePool, Pool  # noqa: E402
from orchestrator.pool.ray_pool import RayPool  # noqa: E402
from orchestrator.pool.ray_start import started_ray  # noqa: E402
from orchestrator.pool.retry import RetryPolicy  # noqa: E402
from orchestrator.search.sampler import SearchState, cycle_rng, draw_quantiles  # noqa: E402
from orchestrator.sources.opening import open_source  # noqa: E402
from orchestrator.storage.open import open_store  # noqa: E402
from scripts.bench.page import add_options, reaches, reported  # noqa: E402
from scripts.bench.turns import TimedPool, turns  # noqa: E402
from trainer.chunk import Chunk, compile_chunk  # noqa: E402
from trainer.instance import Buffers, Job, train  # noqa: E402
from trainer.model import Changes, Model  # noqa: E402
from trainer.outcome import Status  # noqa: E402
from trainer.protocol import Trainer  # noqa: E402
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
SIZES: dict[str, Any] = {"cycles": 10, "rounds": 3, "efficiency_cycles": (6, 40)}
"""How much is measured; `--quick` makes it less."""
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


def config_of(events: int, cycles: int, *more: str) -> RunConfig:
    """A run of one arm whose instances all survive."""
    sizes = (f"source.events_per_cycle={events}", f"cycles={cycles}")
    return read_config(CONFIG, "bench", (*sizes, f"search.instances={INSTANCES}", *more))


def chunks_of(config: RunConfig) -> list[Chunk]:
    """The run's chunks."""
    source = open_source(config.source, None)
    tables = (source.events(cycle) for cycle in range(config.cycles or 1))
    return [compile_chunk(events.table, source.spec) for events in tables if events is not None]


def line_of(config: RunConfig) -> tuple[ArmState, Job]:
    """The run's only arm, before its first cycle."""
    source = open_source(config.source, None)
    line = ArmState(config, config.arms[0], Model(model_config(config, source.spec)))
    return line, Job(source.spec, line.model.shape, config.model.tau)


def events_for(seconds: float) -> int:
    """How many events an instance trains on in this many seconds, on this machine now."""
    config = config_of(20_000, 1)
    line, job = line_of(config)
    (chunk,) = chunks_of(config)
    start, rule, room = (
        line.gather(0, chunk).tables,
        kernel_rule(line.config.rule, SETTING),
        Buffers(),
    )
    took = min(
        train(job, chunk, start, SETTING, rule, buffers=room).outcome.seconds for _ in range(8)
    )
    return round(20_000 * seconds / took)


def loop(
    config: RunConfig, folder: str, view: Records | None = None, pool: type[RayPool] = RayPool
) -> tuple[float, float, float]:
    """(wall, kernel, kernel of one instance) seconds of all cycles but the first."""
    view = view or Records()
    store = open_store(folder)
    make_pool = partial(pool, size=local_cores, policy=RetryPolicy(3, 30))
    run(config, store, prepare(store, config), [view.show], make_pool)
    after = view.records[1:]
    begin, last = (datetime.fromisoformat(r.started).timestamp() for r in (after[0], after[-1]))
    wall = last - begin + after[-1].timings["cycle"]
    seconds = [o.seconds for r in after for o in r.outcomes]
    assert all(o.status is Status.RETAINED for r in after for o in r.outcomes)
    return wall, sum(seconds), float(np.median(seconds))


def efficiency() -> list[Row]:
    """Kernel seconds over cores times wall seconds, several times in one Ray; with short instances
    also how long actors wait from one cycle to the next."""
    rows = []
    with started_ray(None, local_cores(), verbose=False):
        few, many = SIZES["efficiency_cycles"]
        for target, cycles, least in ((0.1, few, 0.95), (0.01, many, 0.93)):
            shares, eaches, waits = [], [], []
            for _ in range(SIZES["rounds"]):
                config = config_of(events_for(target), cycles)
                with tempfile.TemporaryDirectory() as folder:
                    wall, kernel, each = loop(config, folder, pool=TimedPool)
                waits.append(float(np.median(turns(TimedPool.noted))) * 1e3)
                shares.append(kernel / (local_cores() * wall))
                eaches.append(each)
            each_ms = np.median(eaches) * 1e3
            what = f"efficiency, {INSTANCES} instances of {each_ms:.0f} ms a cycle"
            rows.append((what, spread(shares, 3), f">= {least}"))
    rows.append(("turn from one cycle to the next, the same, in ms", spread(waits, 1), "<= 5"))
    return rows


def spread(found: Sequence[float], digits: int) -> str:
    """The median of several measurements, and the least and the largest."""
    low, high = min(found), max(found)
    return f"{np.median(found):.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


# -- peers --------------------------------------------------------------------------------------

_work: dict[str, Any] = {}


def _load(job: Job, chunks: list[Chunk], plans: list[Plan]) -> None:
    _work.update(job=job, chunks=chunks, plans=plans, room=Buffers())


def _pool_train(task: tuple[int, int]) -> float:
    """One instance of one cycle, in a forked process that has it all in memory."""
    cycle, instance = task
    plan = _work["plans"][cycle]
    setting, rule = plan.tasks[instance].setting, plan.tasks[instance].rule
    start, room = plan.working_set.tables, _work["room"]
    return train(
        _work["job"], _work["chunks"][cycle], start, setting, rule, buffers=room
    ).outcome.logloss


class Alternating(Records):
    """After each cycle of the loop, the same kernels in a bare process pool, at the same load.

    A pool without models, journal or faults; chunks and rows are in its processes from the start.
    Ray is up meanwhile, and idle.
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        line, job = line_of(config)
        chunks = chunks_of(config)
        draws = [
            draw_quantiles(config, cycle, cycle_rng(config.seed, cycle))
            for cycle in range(len(chunks))
        ]
        info = ChunkInfo("bench", 0, 0, 0.0, {})
        prepared = [PreparedChunk(c, info, chunk, chunk) for c, chunk in enumerate(chunks)]
        plans = [line.plan(each, draws[each.cycle], None) for each in prepared]
        _load(job, chunks, plans)
        _pool_train((0, 0))
        self._pool, self._since = get_context("fork").Pool(local_cores()), 0.0
        self.ours: list[float] = []
        self.theirs: list[float] = []

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()

    def show(self, records: Sequence[CycleRecord]) -> None:
        """The loop has come round: time it, then the pool."""
        self.ours.append(time.perf_counter() - self._since)
        super().show(records)
        cycle, begin = len(self.theirs), time.perf_counter()
        self._pool.map(_pool_train, [(cycle, i) for i in range(INSTANCES)], chunksize=1)
        self._since = time.perf_counter()
        self.theirs.append(self._since - begin)


def against_pool() -> list[Row]:
    """The whole loop over the bare kernels in a pool, several times: the machine's speed varies."""
    cycles: int = SIZES["cycles"]
    config = config_of(events_for(0.05), cycles + 2)
    ratios, each = [], 0.0
    for _ in range(SIZES["rounds"]):
        view, folder = Alternating(config), tempfile.TemporaryDirectory()
        with folder as where, started_ray(None, local_cores(), verbose=False), view:
            _, _, each = loop(config, where, view)
        assert len(view.ours) == cycles + 2  # each cycle is shown when the next one ends
        counted = slice(1, cycles + 1)
        ratios.append(sum(view.ours[counted]) / sum(view.theirs[counted]))
    what = (
        f"loop / bare process pool, {cycles} cycles of {INSTANCES} instances of {each * 1e3:.0f} ms"
    )
    return [(what, spread(ratios, 2), "<= 1.10")]


def against_tune() -> list[Row]:
    """Ray Tune's population-based training over the loop, on the same trainer and chunks."""
    from scripts.bench.tune import population  # Tune may be missing

    cycles: int = SIZES["cycles"]
    config = config_of(events_for(0.05), cycles + 1)
    line, job = line_of(config)
    chunks = chunks_of(config)[1:]
    with tempfile.TemporaryDirectory() as folder, started_ray(None, local_cores(), verbose=False):
        ours, _, each = loop(config, folder)
        theirs = population(job, chunks, line, INSTANCES)
    what = f"Ray Tune PBT / loop, {cycles} cycles of {INSTANCES} instances of {each * 1e3:.0f} ms"
    return [(what, f"{theirs / ours:.1f}", ">= 3")]


# -- the model's size -----------------------------------------------------------------------------


def grown(config: RunConfig, vectors: int, folder: str, of_users: bool = False) -> None:
    """A run folder whose only arm has a champion with so many vectors, after cycle 0."""
    store = open_store(folder)
    start = prepare(store, config)
    line, _ = line_of(config)
    (chunk, *_) = chunks_of(config)
    rows = line.gather(0, chunk)
    line.promote(0, chunk, rows, rows.tables)
    side = line.model.user if of_users else line.model.ad
    feature = 0 if of_users else len(line.model.config.spec.user)
    at = side.insert((feature, f"old-{i}") for i in range(vectors))
    side.rows[at, 0, :1] = 0.01
    side.touch(at, 0)
    record = CycleRecord(
        driver="bench", config_hash=config_hash(config), seed=config.seed, arm=line.name,
        cycle=start.cycle, started=datetime.now(UTC).isoformat(),
        chunk=ChunkInfo("bench", len(chunk), 0, 0.0, {}), outcomes=(), winner=None, model=(),
        served_logloss=None, norms=None, caution=0, search=SearchState(), timings={},
    )  # fmt: skip
    none = np.zeros(0, np.int64)
    changes = Changes(line.model.cycle, *((at, none) if of_users else (none, at)))
    with Committer(store, config.retention) as committer:
        committer.hand_over([PendingCommit(line, record, changes)])


def size() -> list[Row]:
    """A cycle, commit included, on a large model over the same on a small one."""
    seconds = {}
    for vectors in (50_000, 5_000_000):
        config = config_of(events_for(0.02), 12, "model={overlap: 1, alone: 1}")
        with tempfile.TemporaryDirectory() as folder:
            grown(config, vectors, folder)
            with started_ray(None, local_cores(), verbose=False):
                wall, kernel, _ = loop(config, folder)
        seconds[vectors] = wall / kernel  # the machine's mood cancels out
    ratio = seconds[5_000_000] / seconds[50_000]
    return [("cycle on 5,000,000 vectors / on 50,000, commit included", f"{ratio:.2f}", "<= 1.2")]


# -- lines ----------------------------------------------------------------------------------------

STORMY = ("source.preset=stormy", "source.events_per_cycle=20000", "cycles=10", "seed=101",
          "search.instances=16")  # fmt: skip


def cycle_seconds(config: RunConfig, make_pool: MakePool) -> float:
    """The median time of a cycle, once every line is scored before it trains."""
    view = Records()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        run(config, store, prepare(store, config), [view.show], make_pool)
    return float(np.median([record.timings["cycle"] for record in view.records[2:]]))


def cpu_seconds(config: RunConfig, kind: type[LocalPool] | type[LocalLinePool]) -> float:
    """The same without Ray, in CPU seconds of the thread that trains: load does not show."""
    starts: list[float] = []

    def timed(job: Trainer, rules: Sequence[Rule]) -> Pool:
        pool: Any = kind(job, rules)
        start = pool.start

        def noted(*plans: Any) -> None:
            starts.append(time.thread_time())
            start(*plans)

        pool.start = noted
        return pool  # type: ignore[no-any-return]

    cycle_seconds(config, timed)
    return float(np.median(np.diff(starts)[2:]))


def lines() -> list[Row]:
    """A cycle of `lineages` over one of `champion`, short runs in turn: the speed varies."""
    text = CONFIG.replace("  sampler: random\n", "")  # lines draw settings by themselves
    champion, lineages, mean = (
        read_config(text, "bench", (*STORMY, f"search.select={{kind: {kind}}}", f"serve={serve}"))
        for kind, serve in (
            ("champion", "{}"),
            ("lineages", "{}"),
            ("lineages", "{mean_of: 4}"),
        )
    )
    what, wanted = "lineages / champion, a cycle of 16 instances", "<= 1.15"
    cpu, cpu_mean = [], []
    for _ in range(SIZES["rounds"]):
        one = cpu_seconds(champion, LocalPool)
        cpu.append(cpu_seconds(lineages, LocalLinePool) / one)
        cpu_mean.append(cpu_seconds(mean, LocalLinePool) / one)
    options: Any = {"size": local_cores, "policy": RetryPolicy(3, 30)}
    with started_ray(None, local_cores(), verbose=False):
        wall = [
            cycle_seconds(lineages, partial(RayLinePool, **options))
            / cycle_seconds(champion, partial(RayPool, **options))
            for _ in range(SIZES["rounds"])
        ]
    return [
        (f"{what}, in one process, CPU seconds", spread(cpu, 2), wanted),
        (f"{what}, the same with mean_of: 4", spread(cpu_mean, 2), wanted),
        (f"{what}, on Ray with {local_cores()} actors", spread(wall, 2), wanted),
    ]


def main() -> None:
    """Measure the given parts, or all."""
    parts = {
        "efficiency": efficiency,
        "pool": against_pool,
        "tune": against_tune,
        "size": size,
        "lines": lines,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[])
    add_options(parser)
    options = parser.parse_args()
    if options.quick:
        SIZES.update(cycles=3, rounds=1, efficiency_cycles=(3, 10))
    chosen = options.part or (["efficiency", "pool"] if options.quick else parts)
    with reported("loop", options.readme, options.quick) as missed:
        missed += table({name: parts[name] for name in chosen})


def table(parts: dict[str, Callable[[], list[Row]]]) -> list[str]:
    """Measure and print; return the bars that were missed."""
    missed = []
    print("| what | measured | wanted |\n|---|---|---|")
    for name, part in parts.items():
        try:
            with redirect_stdout(sys.stderr):  # Tune prints a lot
                rows = part()
        except ImportError as error:
            rows = [(name, f"not run: {error}", "")]
        for what, measured, wanted in rows:
            print(f"| {what} | {measured} | {wanted} |", flush=True)
            if wanted and not reaches(measured, wanted):
                missed.append(f"{what}: {measured}, not {wanted}")
    return missed


if __name__ == "__main__":
    main()
