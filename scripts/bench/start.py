"""How long Holdfast takes to start, what that is made of, and the memory of a model's vectors.

    .venv/bin/python scripts/bench/start.py [--quick] [--readme]

Every figure comes from a process of its own; times are medians of several. Prints Markdown tables.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts.bench.page import add_options, reported
from scripts.results.readme import ROOT

CONFIG = ROOT / "configs/quickstart.yaml"
HELP_S, FIRST_CYCLE_S = 0.3, 6.0
"""The bars."""


# -- in a process of their own --------------------------------------------------------------------


def first_cycle(began: float) -> dict[str, float]:
    """Seconds of each stage of `holdfast run` up to the first commit, from a process's start."""
    stages, last = dict[str, float](), began

    def reached(stage: str) -> None:
        nonlocal last
        stages[stage], last = time.time() - last, time.time()

    from orchestrator.config.file import load_config
    from orchestrator.journal.run_folder import prepare
    from orchestrator.pool.ray_env import local_environment
    from orchestrator.storage.open import open_store

    reached("Python, config and storage: imports")
    local_environment()
    from orchestrator.loop.run import run
    from orchestrator.pool.ray_pool import RayPool
    from orchestrator.pool.ray_start import started_ray
    from orchestrator.pool.retry import RetryPolicy

    reached("Ray, Arrow and the loop: imports")
    with tempfile.TemporaryDirectory() as folder:
        config = load_config(str(CONFIG), ())
        store = open_store(folder)
        start = prepare(store, config)
        reached("config and run folder")
        with started_ray(None, None, False) as size:
            reached("starting Ray")
            policy = RetryPolicy(config.tries, config.patience_s)
            stop = threading.Event()

            def committed(*_: Any) -> None:
                if not stop.is_set():
                    reached("actors, their kernels and the first cycle")
                stop.set()

            make_pool = partial(RayPool, size=size, policy=policy)
            run(config, store, start, [committed], make_pool, stop)
    return stages


def memory_per_million(kind: str, vectors: int) -> float:
    """MB of resident memory for a million vectors, half of them users', half of them ads'."""
    from orchestrator.publish.place import Version
    from orchestrator.serving.snapshot import snapshot
    from orchestrator.sources.simulator.spec import SPEC
    from trainer.lines import LineOptions, Lines
    from trainer.model import Model, ModelConfig

    config = ModelConfig(SPEC, overlap=2, alone=2)
    kept: list[Any] = [Model(config), Lines(LineOptions(config, 0.0, 1.0, None))]
    before = resident_mb()
    model = Model(config)
    for side, feature in ((model.user, 0), (model.ad, len(SPEC.user))):
        side.insert([(feature, f"value {i}") for i in range(vectors // 2)])
        side.rows[:] = 0.5
    model.cycle = 0
    if kind == "model":
        return (resident_mb() - before) * 1e6 / vectors
    before = resident_mb()
    if kind == "snapshot":
        kept.append(snapshot(model, Version(1, "bench", 0, "", ())))
    else:
        lines = Lines(LineOptions(config, 0.0, 1.0, None))
        lines.load(0, model)
        first = resident_mb() - before
        if kind == "first line":
            return first * 1e6 / vectors
        before = resident_mb()
        lines.load(1, model)
        kept.append(lines)
    return (resident_mb() - before) * 1e6 / vectors


def resident_mb() -> float:
    """The resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


# -- measuring ------------------------------------------------------------------------------------


def in_child(what: str) -> Any:
    """The value of an expression, in a new process."""
    code = f"import json\nfrom scripts.bench.start import *\nprint('\\n' + json.dumps({what}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return json.loads(done.stdout.splitlines()[-1])


def median(measure: Callable[[], float], rounds: int) -> float:
    """The median of several measurements."""
    return float(np.median([measure() for _ in range(rounds)]))


def help_s() -> float:
    """Seconds of `holdfast --help`."""
    began = time.perf_counter()
    command = [sys.executable, "-c", "from orchestrator.cli import main; main()", "--help"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
    return time.perf_counter() - began


def print_start(rounds: int) -> list[str]:
    """The table of times; returns the bars that were missed.

    The first run fills the cache of kernels and does not count.
    """
    missed = []
    in_child(f"first_cycle({time.time()})")
    runs = [in_child(f"first_cycle({time.time()})") for _ in range(rounds)]
    total = float(np.median([sum(run.values()) for run in runs]))
    shown = median(help_s, 2 * rounds + 1)
    print("| | bar | seconds | |\n|---|---|---|---|")
    for what, bar, found in (
        ("`holdfast --help`", HELP_S, shown),
        ("`holdfast run` to its first cycle, kernels in the cache", FIRST_CYCLE_S, total),
    ):
        print(f"| {what} | ≤ {bar} | {found:.2f} | {'met' if found <= bar else 'missed'} |")
        if found > bar:
            missed.append(f"{what} ≤ {bar} s, but {found:.2f} s")
    for stage in runs[0]:
        print(f"| · {stage} | | {np.median([run[stage] for run in runs]):.2f} | |")
    return missed


def print_memory(vectors: int) -> None:
    """The table of memory."""
    print("\n| resident memory for a million vectors, index included | MB |\n|---|---|")
    for kind, what in (
        ("model", "driver: a champion"),
        ("first line", "actor, `select: lineages`: its first line, which shares the values' texts"),
        ("next line", "actor, `select: lineages`: each further line"),
        ("snapshot", "serving: a snapshot, beside the model that follows the place"),
    ):
        print(f"| {what} | {in_child(f'memory_per_million({kind!r}, {vectors})'):,.0f} |")
    print("\nAn actor with `select: champion` has no model: its memory depends on the chunk.")


def main() -> None:
    """Measure and print; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    with reported("start", options.readme, options.quick) as missed:
        missed += print_start(1 if options.quick else 5)
        print_memory(200_000 if options.quick else 1_000_000)


if __name__ == "__main__":
    main()
