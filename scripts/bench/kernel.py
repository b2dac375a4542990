"""How fast one instance trains on one core, as ratios against peers measured in the same run.

    .venv/bin/python scripts/bench/kernel.py [--rounds 60] [--quick] [--readme]

The anchor is anchor.c, built with `gcc -O3 -march=native` (skipped with a message where that
fails), once with AVX2 alone and, where the CPU has it, once with AVX-512 for the powers; the
yardstick is obvious.py. Rounds are interleaved, ratios are medians, times are those of the CPU,
so that other work on the machine counts as little as can be. On a CPU with AVX-512 the first table
is measured a second time, compiled as for one without.
"""

import argparse
import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pyarrow as pa

from divergence.lanemath import CONSTANTS
from divergence.power import has_wide_registers
from divergence.rules import RULES, make_rule
from scripts.bench import obvious
from scripts.bench.page import add_options, reported
from trainer.chunk import compile_chunk
from trainer.contract.examples import required_parameters
from trainer.features import Feature, FeatureSpec
from trainer.geometry import PARTS, Shape, shape_of
from trainer.instance import Buffers, Job, train, warm_up
from trainer.kernel import EventRows, Rates, Tables, total_loss, train_block
from trainer.model import Model, ModelConfig
from trainer.modelfile import save_delta
from trainer.setting import Setting
from trainer.static_shape import StaticShape

SHAPES = {"K6": (6, 3, 3, 4), "K10": (10, 2, 2, 4), "K3": (3, 4, 2, 4)}
ETA0, ALPHA, BETA, TAU = 0.1, 1.0, 0.6, 15.0
RHO, DUAL_STEP, FLOOR, CEILING = 0.3, 0.1, 1e-3, 1e3
DUAL = {"rho": RHO, "mu_floor": FLOOR, "mu_ceiling": CEILING, "implicit": False}
PARAMETERS = {
    "l2": {"lam": 1e-3},
    "naive": DUAL,
    "euclidean": DUAL | {"dual_step": DUAL_STEP},
    "entropic": DUAL | {"dual_step": DUAL_STEP},
    "projection": {"rho": RHO},
}
Run = Callable[[], float]
Bars = dict[str, float | dict[str, float]]


def main() -> None:
    """Print the tables; exit with 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only-speed", action="store_true", help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args()
    rounds = 15 if options.quick else options.rounds
    if options.only_speed:
        missed = speed(rounds, 1000, "compiled without AVX-512", NARROW_BARS)
        print(json.dumps(missed))
        return
    with reported("kernel", options.readme, options.quick) as missed:
        missed += tables_of(rounds, options.quick)


def tables_of(rounds: int, quick: bool) -> list[str]:
    """Measure and print everything; return the bars that were missed."""
    print("5,000 events a run\n")
    bars = WIDE_BARS if has_wide_registers() else NARROW_BARS
    missed = speed(rounds, 1000, "tables that fit the cache", bars)
    if has_wide_registers():
        missed += speed_without_avx512(rounds)
    if quick:
        return missed
    missed += speed(rounds // 3, 100_000, "four ad tables of 100,000 rows", {"reference ÷ C": 0.85})
    missed += rules(rounds)
    missed += model_size()
    first_call()
    memory()
    return missed


NARROW_BARS: Bars = {"reference ÷ C": 0.9, "default ÷ C": 1.0, "reference ÷ obvious": 6.0}
WIDE_BARS: Bars = {
    "reference ÷ C": 1.0,
    "default ÷ C": {"K6": 1.15, "K10": 1.15, "K3": 1.05},
    "default ÷ C-512": 0.95,
    "reference ÷ obvious": 6.0,
}


def speed(rounds: int, ads: int, title: str, bars: Bars) -> list[str]:
    """Ours against the anchors and the obvious loop, on the three shapes."""
    columns = ["C", *["C-512"] * has_wide_registers(), "reference", "default", "obvious"]
    pairs = [(run, peer) for peer in columns[:-3] for run in ("reference", "default")]
    pairs.append(("reference", "obvious"))
    heads = ["shape", *columns, *(" ÷ ".join(pair) for pair in pairs)]
    print(f"### {title}\n\n| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    missed = []
    for name, (k, o, s, a) in SHAPES.items():
        work = Work(k, o, s, a, ads)
        made = {
            "C": work.anchor(),
            "C-512": work.anchor(wide=True) if "C-512" in columns else None,
            "reference": work.ours("entropic", True),
            "default": work.ours("entropic", False),
            "obvious": work.obvious(),
        }
        taken = interleaved({run: go for run, go in made.items() if go is not None}, rounds)
        ns = {run: f"{np.median(t) / len(work.click) * 1e9:.0f} ns" for run, t in taken.items()}
        ratios = {
            f"{run} ÷ {peer}": float(np.median(taken[peer] / taken[run]))
            for run, peer in pairs
            if peer in taken
        }
        cells = [ns.get(run, "-") for run in columns]
        cells += [f"{ratios[head]:.2f}" if head in ratios else "-" for head in heads[-len(pairs) :]]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        for what, bar in bars.items():
            least = bar[name] if isinstance(bar, dict) else bar
            if ratios.get(what, least) < least:
                missed.append(f"{title}, {name}: {what} is {ratios[what]:.2f}, not {least}")
    print()
    return missed


def speed_without_avx512(rounds: int) -> list[str]:
    """The first table, in a process that compiles for this CPU without its AVX-512."""
    features = llvm.get_host_cpu_features()
    for name in features:
        features[name] = features[name] and not name.startswith(("avx512", "avx10"))
    cpu = {"NUMBA_CPU_NAME": llvm.get_host_cpu_name(), "NUMBA_CPU_FEATURES": features.flatten()}
    run = subprocess.run(
        [sys.executable, __file__, "--only-speed", "--rounds", str(rounds)],
        env={**os.environ, **cpu, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    table, _, missed = run.stdout.strip().rpartition("\n")
    print(f"{table}\n")
    found: list[str] = json.loads(missed)
    return found


def rules(rounds: int) -> list[str]:
    """Every rule against the entropic one, in the default mode."""
    print("### time of each rule ÷ time of entropic\n")
    print("| rule | " + " | ".join(SHAPES) + " |\n|---" * 1 + "|" + "---|" * len(SHAPES))
    ratios: dict[str, list[float]] = {rule: [] for rule in RULES}
    for k, o, s, a in SHAPES.values():
        work = Work(k, o, s, a, 1000)
        taken = interleaved({rule: work.ours(rule, False) for rule in RULES}, rounds // 2)
        for rule, seconds in taken.items():
            ratios[rule].append(float(np.median(seconds / taken["entropic"])))
    for rule, row in ratios.items():
        print(f"| {rule} | " + " | ".join(f"{r:.2f}" for r in row) + " |")
    print()
    return [f"{rule} takes {max(row):.2f} of entropic's time, more than 1.25"
            for rule, row in ratios.items() if max(row) > 1.25]  # fmt: skip


def model_size() -> list[str]:
    """One cycle's steps on the same chunk, for a small model and a large one."""
    rng = np.random.default_rng(0)
    spec = FeatureSpec((Feature("age"), Feature("geo"), Feature("site")), (Feature("ad"),))
    config = ModelConfig(spec, 4, 2)
    job, rule = Job(spec, config.shape), make_rule("entropic", **PARAMETERS["entropic"])
    warm_up(job, rule)
    columns = {name: rng.integers(0, 2000, 20_000) for name in ("age", "geo", "site", "ad")}
    events = pa.table({"click": (rng.random(20_000) < 0.05).astype(np.uint8), **columns})
    chunk = compile_chunk(events, spec)
    sizes = {"50 thousand": 50_000, "5 million": 5_000_000}
    models = {name: grown(config, vectors) for name, vectors in sizes.items()}
    buffers = Buffers()
    taken: dict[str, list[Any]] = {name: [] for name in sizes}
    for cycle in range(1, 16):
        for name, model in models.items():
            times = [time.perf_counter()]
            start = model.gather(chunk, cycle)
            times.append(time.perf_counter())
            setting = Setting(ETA0, ALPHA, BETA)
            trained = train(job, chunk, start.tables, setting, rule, buffers=buffers)
            times.append(time.perf_counter())
            changes = model.scatter(chunk, cycle, start, trained.tables)
            save_delta(model, changes.with_dropped(model.expire(cycle - 100)))
            times.append(time.perf_counter())
            taken[name].append(np.diff(times))
    print("### the same chunk of 20,000 events on models of two sizes\n")
    print("| vectors | gather | one instance | scatter and delta file |\n|---|---|---|---|")
    for name, rows in taken.items():
        cells = (f"{ms:.1f} ms" for ms in np.median(rows, axis=0) * 1e3)
        print(f"| {name} | " + " | ".join(cells) + " |")
    small, large = (np.array(rows)[:, 1] for rows in taken.values())
    ratio = float(np.median(large / small))
    print(f"\nan instance on the larger takes {ratio:.2f} of the time on the smaller\n")
    return [f"an instance takes {ratio:.2f} on the larger model, more than 1.1"] * (ratio > 1.1)


def grown(config: ModelConfig, vectors: int) -> Model:
    """A model with this many vectors, the chunk's among them."""
    model = Model(config)
    rows = model.ad.insert((3, str(value)) for value in range(vectors))
    model.ad.rows[rows, 0, : config.shape.ad] = 0.01
    model.ad.touch(rows, 0)
    model.cycle = 0
    return model


def first_call() -> None:
    """What the first call of a process costs, with an empty cache and with a full one."""
    code = (
        "import time; t = time.perf_counter();"
        "from trainer.instance import *; from trainer.geometry import shape_of;"
        "from trainer.features import *; from divergence.rules import make_rule;"
        "spec = FeatureSpec(tuple(Feature(f'u{i}') for i in range(6)), (Feature('a'),));"
        "i = time.perf_counter() - t;"
        "print(i, warm_up(Job(spec, shape_of(spec, 3, 3)), make_rule('clippy')))"
    )
    with tempfile.TemporaryDirectory() as cache:
        print("### first call (K6)\n\n| cache | import | compile or load |\n|---|---|---|")
        for state in ("empty", "full"):
            run = subprocess.run(
                [sys.executable, "-c", code],
                env={"XDG_CACHE_HOME": cache, "PATH": "/usr/bin:/bin", "HOME": cache},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            imported, warm = map(float, run.stdout.split())
            print(f"| {state} | {imported:.1f} s | {warm:.2f} s |")
    print()


def memory() -> None:
    """What an instance allocates, against the working set it trains."""
    work = Work(6, 3, 3, 4, 100_000)
    size = sum(array.nbytes for array in work.tables)
    tracemalloc.start()
    buffers = Buffers()
    buffers.copy_of(work.tables)
    buffers.margins(len(work.click))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"### memory\n\nworking set {size / 1e6:.0f} MB, an instance's own {peak / 1e6:.0f} MB")
    print(f"({peak / size:.2f} of the working set, a quarter of it room to grow)\n")


class Work:
    """Events and tables of one shape, and the contestants that train on copies of them."""

    def __init__(self, k: int, o: int, s: int, a: int, ads: int, events: int = 5000):
        rng = np.random.default_rng(0)
        user = tuple(Feature(f"u{i}") for i in range(k))
        self.spec = FeatureSpec(user, tuple(Feature(f"a{i}") for i in range(a)))
        self.shape = shape_of(self.spec, o, s)
        self.ad_features = a
        self.click = frozen((rng.random(events) < 0.05).astype(np.uint8))
        self.users = slots(rng, events, k, 200)
        self.ads = slots(rng, events, a, ads)
        self.tables = tables(rng, self.shape, k * 200, a * ads)
        self.buffers = Buffers()
        self.trained: list[Any] = []
        """What the last run made of the tables, and its margins."""

    def ours(self, rule: str, reference: bool) -> Run:
        """Our kernel with this rule."""
        made = make_rule(rule, **PARAMETERS.get(rule) or required_parameters(rule))
        warm_up(Job(self.spec, self.shape, TAU, reference), made)
        fixed, rates = StaticShape(self.shape), Rates(ETA0, ALPHA, BETA, TAU, reference)

        def run() -> float:
            own, margin = self.buffers.copy_of(self.tables), self.buffers.margins(len(self.click))
            begin = time.thread_time()
            bad = train_block(self.click, self.users, self.ads, own, fixed, rates, made, 0,
                              len(self.click), margin, CONSTANTS)  # fmt: skip
            total_loss(margin, len(self.click), CONSTANTS)
            seconds = time.thread_time() - begin
            self.trained = [*own, margin[: len(self.click)]]
            assert bad == -1
            return seconds

        return run

    def anchor(self, wide: bool = False) -> Run | None:
        """The C anchor, with AVX2 or with AVX-512 powers, or None."""
        function = build_anchor(self.shape, self.ad_features, wide)
        if function is None:
            return None
        numbers = (ETA0, ALPHA, BETA, TAU, RHO, DUAL_STEP, FLOOR, CEILING)
        setting, loss = np.array(numbers, np.float32), np.zeros(1)

        def run() -> float:
            own, margin = self.buffers.copy_of(self.tables), self.buffers.margins(len(self.click))
            arrays = (self.click, self.users.row, self.ads.row, *own, setting, margin, loss)
            pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
            begin = time.thread_time()
            bad = function(ctypes.c_int64(len(self.click)), *pointers)
            seconds = time.thread_time() - begin
            self.trained = [*own, margin[: len(self.click)]]
            assert bad == -1
            return seconds

        return run

    def obvious(self) -> Run:
        """The scalar loop."""
        shape = self.shape
        geometry = (shape.features, shape.overlap, shape.alone, shape.user, shape.ad)
        numbers = (ETA0, ALPHA, BETA, TAU, RHO, DUAL_STEP, FLOOR, CEILING)
        setting = tuple(np.float32(number) for number in numbers)
        user_row = self.users.row.reshape(len(self.click), -1)
        ad_row = self.ads.row.reshape(len(self.click), -1)

        def run() -> float:
            own = self.buffers.copy_of(self.tables)
            user = own.user.reshape(-1, PARTS, shape.user_padded)[:, 0, : shape.user].copy()
            ad = own.ad.reshape(-1, PARTS, shape.ad_padded)[:, 0, : shape.ad].copy()
            sums = np.zeros_like(user), np.zeros_like(ad)
            bias = own.bias.astype(np.float32)
            begin = time.thread_time()
            state = (user, sums[0], own.user_mu, ad, sums[1], own.ad_mu, bias)
            bad, _ = obvious.train(self.click, user_row, ad_row, geometry, setting, *state)
            seconds = time.thread_time() - begin
            assert bad == -1
            return seconds

        return run


def interleaved(runs: dict[str, Run], rounds: int) -> dict[str, Any]:
    """Seconds of each contestant in each round; a first, uncounted round compiles."""
    for run in runs.values():
        run()
    seconds = np.array([[run() for run in runs.values()] for _ in range(rounds)])
    return dict(zip(runs, seconds.T, strict=True))


def build_anchor(shape: Shape, ads: int, wide: bool) -> Any:
    """The anchor for this shape as a C function, or None with a message."""
    compiler = shutil.which("gcc")
    if compiler is None or platform.machine() not in ("x86_64", "AMD64"):
        print("(no C anchor: it needs gcc on x86-64)", file=sys.stderr)
        return None
    folder = Path(tempfile.mkdtemp(prefix="holdfast-anchor-"))
    numbers = {"K": shape.features, "O": shape.overlap, "S": shape.alone, "A": ads}
    numbers |= {"WIDE": 1} if wide else {}
    build = subprocess.run(
        [compiler, "-O3", "-march=native", *["-mno-avx512f"] * (not has_wide_registers()),
         "-shared", "-fPIC", "-o", str(folder / "anchor.so"),
         *(f"-D{name}={value}" for name, value in numbers.items()),
         str(Path(__file__).parent / "anchor.c"), "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if build.returncode != 0:
        print(f"(no C anchor: gcc says {build.stderr.splitlines()[0]})", file=sys.stderr)
        return None
    return ctypes.CDLL(str(folder / "anchor.so")).train


def slots(rng: np.random.Generator, events: int, features: int, values: int) -> EventRows:
    """Single-valued features whose values are log-uniform: few are hot."""
    columns = [np.minimum(values ** rng.random(events) - 1, values - 1) + k * values
               for k in range(features)]  # fmt: skip
    row = np.stack(columns, axis=1).astype(np.int32).reshape(-1)
    start = np.arange(0, (events + 1) * features, features, dtype=np.int64)
    nothing = np.zeros(0, np.int32)
    return EventRows(*map(frozen, (start, row, nothing, nothing.astype(np.float32))))


def tables(rng: np.random.Generator, shape: Shape, users: int, ads: int) -> Tables:
    """Fresh vectors, small multipliers."""
    flat = []
    for rows, length, width in (
        (users + shape.features, shape.user, shape.user_padded),
        (ads, shape.ad, shape.ad_padded),
    ):
        table = np.zeros((rows, PARTS, width), np.float32)
        table[:, 0, :length] = rng.normal(0, 0.1, (rows, length))
        flat.append(table.reshape(-1))
    mu = [np.full(rows, FLOOR, np.float32) for rows in (users, ads)]
    return Tables(flat[0], flat[1], mu[0], mu[1], np.array([-3.0, 0.0]))


def frozen(array: Any) -> Any:
    """Read-only, as chunks are."""
    array.setflags(write=False)
    return array


if __name__ == "__main__":
    main()
