"""How fast one instance trains on one core, as ratios against peers measured in the same run.

    .venv/bin/python scripts/bench/kernel.py [--rounds 60] [--readme]

The anchor is anchor.c, built with `gcc -O3 -march=native` (skipped with a message where that
fails); the yardstick is obvious.py. Rounds are interleaved, ratios are medians.
"""

import argparse
import ctypes
import io
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from divergence.lanemath import CONSTANTS
from divergence.rules import RULES, make_rule
from scripts.bench import obvious
from scripts.results.readme import BENCH, Tee, replace_block
from trainer.chunk import compile_chunk
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


def main() -> None:
    """Print the tables; exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--readme", action="store_true", help=f"write the tables to {BENCH}")
    options = parser.parse_args()
    rounds, printed = options.rounds, io.StringIO()
    with redirect_stdout(Tee(printed) if options.readme else sys.stdout):
        missed = tables_of(rounds)
    if options.readme:
        replace_block(BENCH, "kernel", printed.getvalue())
    for miss in missed:
        print(f"MISSED: {miss}")
    sys.exit(1 if missed else 0)


def tables_of(rounds: int) -> list[str]:
    """Measure and print everything; return the targets that were missed."""
    print(f"{processor()}, Python {platform.python_version()}, 5,000 events a run\n")
    missed = speed(rounds, 1000, "tables that fit the cache", (0.90, 6.0, 1.0))
    missed += speed(rounds // 3, 100_000, "four ad tables of 100,000 rows", (0.85, 0.0, 0.0))
    missed += rules(rounds)
    missed += model_size()
    first_call()
    memory()
    return missed


def speed(rounds: int, ads: int, title: str, targets: tuple[float, float, float]) -> list[str]:
    """Ours against the anchor and the obvious loop, on the three shapes."""
    print(f"### {title}\n")
    print("| shape | C | reference | default | obvious | reference ÷ C | default ÷ C | ÷ obvious |")
    print("|---|---|---|---|---|---|---|---|")
    missed = []
    for name, (k, o, s, a) in SHAPES.items():
        work = Work(k, o, s, a, ads)
        runs = {"reference": work.ours("entropic", True), "default": work.ours("entropic", False)}
        runs["obvious"] = work.obvious()
        if (anchor := work.anchor()) is not None:
            runs["C"] = anchor
        taken = interleaved(runs, rounds)
        ns = {run: f"{np.median(t) / len(work.click) * 1e9:.0f} ns" for run, t in taken.items()}
        against = {
            (run, peer): float(np.median(taken[peer] / taken[run]))
            for run in ("reference", "default")
            for peer in ("C", "obvious")
            if peer in taken
        }
        ratio = [against.get(pair) for pair in
                 (("reference", "C"), ("default", "C"), ("reference", "obvious"))]  # fmt: skip
        cells = [name, *(ns.get(r, "-") for r in ("C", "reference", "default", "obvious"))]
        print(
            f"| {' | '.join(cells)} | " + " | ".join(f"{r:.2f}" if r else "-" for r in ratio) + " |"
        )
        for what, got, target in zip(
            ("reference ÷ C", "default ÷ C", "reference ÷ obvious"),
            ratio, (targets[0], targets[2], targets[1]), strict=True,
        ):  # fmt: skip
            if got is not None and got < target:
                missed.append(f"{title}, {name}: {what} is {got:.2f}, not {target}")
    print()
    return missed


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
        made = make_rule(rule, **PARAMETERS.get(rule, {}))
        warm_up(Job(self.spec, self.shape, TAU, reference), made)
        fixed, rates = StaticShape(self.shape), Rates(ETA0, ALPHA, BETA, TAU, reference)

        def run() -> float:
            own, margin = self.buffers.copy_of(self.tables), self.buffers.margins(len(self.click))
            begin = time.perf_counter()
            bad = train_block(self.click, self.users, self.ads, own, fixed, rates, made, 0,
                              len(self.click), margin, CONSTANTS)  # fmt: skip
            total_loss(margin, len(self.click), CONSTANTS)
            seconds = time.perf_counter() - begin
            self.trained = [*own, margin[: len(self.click)]]
            assert bad == -1
            return seconds

        return run

    def anchor(self) -> Run | None:
        """The C anchor, or None."""
        function = build_anchor(self.shape, self.ad_features)
        if function is None:
            return None
        numbers = (ETA0, ALPHA, BETA, TAU, RHO, DUAL_STEP, FLOOR, CEILING)
        setting, loss = np.array(numbers, np.float32), np.zeros(1)

        def run() -> float:
            own, margin = self.buffers.copy_of(self.tables), self.buffers.margins(len(self.click))
            arrays = (self.click, self.users.row, self.ads.row, *own, setting, margin, loss)
            pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
            begin = time.perf_counter()
            bad = function(ctypes.c_int64(len(self.click)), *pointers)
            seconds = time.perf_counter() - begin
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
            begin = time.perf_counter()
            state = (user, sums[0], own.user_mu, ad, sums[1], own.ad_mu, bias)
            bad, _ = obvious.train(self.click, user_row, ad_row, geometry, setting, *state)
            seconds = time.perf_counter() - begin
            assert bad == -1
            return seconds

        return run


def interleaved(runs: dict[str, Run], rounds: int) -> dict[str, Any]:
    """Seconds of each contestant in each round; a first, uncounted round compiles."""
    for run in runs.values():
        run()
    seconds = np.array([[run() for run in runs.values()] for _ in range(rounds)])
    return dict(zip(runs, seconds.T, strict=True))


def build_anchor(shape: Shape, ads: int) -> Any:
    """The anchor for this shape as a C function, or None with a message."""
    compiler = shutil.which("gcc")
    if compiler is None or platform.machine() not in ("x86_64", "AMD64"):
        print("(no C anchor: it needs gcc on x86-64)", file=sys.stderr)
        return None
    folder = Path(tempfile.mkdtemp(prefix="holdfast-anchor-"))
    numbers = {"K": shape.features, "O": shape.overlap, "S": shape.alone, "A": ads}
    build = subprocess.run(
        [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(folder / "anchor.so"),
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


def processor() -> str:
    """The machine, as its kernel names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "?")


if __name__ == "__main__":
    main()
