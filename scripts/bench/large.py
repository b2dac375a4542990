"""Lines of a large model: 16 of them, with five million vectors each, on this machine.

    .venv/bin/python scripts/bench/large.py [--vectors N] [--quick] [--readme]

A run of one line makes a champion with so many vectors of user features, eight entries each, as
four user features have in the default geometry. A second run starts all its lines from it. Prints a
Markdown table. Five million need some 9 GB of memory.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from orchestrator.config.file import read_config
from orchestrator.pool.ray_env import local_cores, local_environment

local_environment()

from orchestrator.journal.run_folder import prepare  # noqa: E402
from orchestrator.loop.run import run  # noqa: E402
from orchestrator.pool.lines.ray_pool import RayLinePool  # noqa: E402
from orchestrator.pool.ray_start import started_ray  # noqa: E402
from orchestrator.pool.retry import RetryPolicy  # noqa: E402
from orchestrator.storage.open import open_store  # noqa: E402
from scripts.bench.loop import Records, config_of, grown  # noqa: E402
from scripts.bench.page import add_options, reported  # noqa: E402

LINES = 16
EVENTS, CYCLES = 20_000, 6
LARGE = """
seed: 1
cycles: {cycles}
source: {{kind: simulator, preset: normal, events_per_cycle: {events}}}
model: {{overlap: 1, alone: 1}}
search: {{instances: {lines}, select: lineages}}
arms: [{{name: only, rule: holdfast, start_from: {{run: {folder}}}}}]
"""


class Memory:
    """The most memory that this process and its trainers have had, sampled while it is open.

    `all_gb` is that of all processes at one time, Ray's own and its object store included.
    """

    def __init__(self) -> None:
        self.driver_gb = self.actor_gb = self.all_gb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil  # type: ignore[import-untyped]  # a part of Ray, on the path with it

        us = psutil.Process()
        while not self._stop.wait(0.2):
            self.driver_gb = max(self.driver_gb, us.memory_info().rss / 1e9)
            in_all = 0.0
            for one in [us, *us.children(recursive=True)]:
                with suppress(psutil.Error):  # it has ended
                    in_all += one.memory_full_info().pss / 1e9  # each shared page counts once
                    if one.name().startswith("ray::"):
                        memory = one.memory_info()  # the object store is shared
                        self.actor_gb = max(self.actor_gb, (memory.rss - memory.shared) / 1e9)
            self.all_gb = max(self.all_gb, in_all)


def measure(vectors: int, folder: Path) -> None:
    """Run both runs and print the table."""
    first = config_of(EVENTS, 1, "search.instances=1", "model={overlap: 1, alone: 1}")
    made = timed(lambda: grown(first, vectors, str(folder / "first"), of_users=True))
    text = LARGE.format(cycles=CYCLES, events=EVENTS, lines=LINES, folder=folder / "first")
    config = read_config(text, "bench", ())
    store, view, began = open_store(str(folder / "lines")), Records(), time.perf_counter()
    committed: list[float] = []

    def note(*_: object) -> None:
        committed.append(time.perf_counter() - began)

    with Memory() as memory, started_ray(None, local_cores(), verbose=False) as size:
        policy = RetryPolicy(config.tries, config.patience_s)
        make_pool = partial(RayLinePool, size=size, policy=policy)
        run(config, store, prepare(store, config), [view.show, note], make_pool)
    cycles = ", ".join(f"{record.timings['cycle']:.1f}" for record in view.records)
    print("| what | measured |\n|---|---|")
    print(f"| vectors of the champion that all {LINES} lines start from | {vectors:,} |")
    print(f"| to make that champion and write it | {made:.0f} s |")
    print(f"| from the start of Ray to the first commit | {committed[0]:.0f} s |")
    print(f"| cycles of {EVENTS:,} events | {cycles} s |")
    print(f"| most memory of one of {local_cores()} actors, {LINES} lines in all |"
          f" {memory.actor_gb:.1f} GB |")  # fmt: skip
    print(f"| most memory of the driver | {memory.driver_gb:.1f} GB |")
    print(f"| most memory of all processes, with Ray's object store | {memory.all_gb:.1f} GB |")
    written = sum(file.stat().st_size for file in (folder / "lines").rglob("*.safetensors"))
    print(f"| models and snapshots written in {CYCLES} cycles | {written / 1e9:.1f} GB |")


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vectors", type=int, default=5_000_000)
    add_options(parser)
    options = parser.parse_args()
    vectors = 200_000 if options.quick else options.vectors
    with reported("large", options.readme, options.quick), tempfile.TemporaryDirectory() as folder:
        measure(vectors, Path(folder))


if __name__ == "__main__":
    main()
