"""How many events a second the sources give, on one core; compilation is not counted.

    .venv/bin/python scripts/bench/sources.py [--quick] [--readme]

Prints a table. To measure another source, add a function that yields rows to BENCHMARKS.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orchestrator.sources.protocol import Source
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.source import Simulator
from scripts.bench.page import add_options, reported


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: how many events in how many seconds."""

    what: str
    events: int
    seconds: float


def best_of(rounds: int, work: Callable[[], int]) -> tuple[int, float]:
    """(events, seconds) of the fastest round; `work` returns how many events it gave."""
    best = (0, float("inf"))
    for _ in range(rounds):
        begin = time.perf_counter()
        events = work()
        best = min(best, (events, time.perf_counter() - begin), key=lambda pair: pair[1])
    return best


def read(source: Source, cycles: range) -> int:
    """Ask for these chunks, one after another; how many events they held."""
    chunks = (source.events(cycle) for cycle in cycles)
    return sum(len(chunk.table) for chunk in chunks if chunk is not None)


def simulator(rounds: int) -> Iterator[Row]:
    """Arrow tables of the simulated market: small and large chunks, few and many ads."""
    for events, ads, cycles in ((4_000, 2_000, 96), (20_000, 2_000, 48), (20_000, 200_000, 24)):
        yield _simulator_row(events, ads, cycles, rounds)
    yield _simulator_row(1_000_000, 200_000, 2, rounds)


def _simulator_row(events: int, ads: int, cycles: int, rounds: int) -> Row:
    source = Simulator(SimulatorConfig(events_per_cycle=events, ads=ads, daily_swing=0))
    source.events(0)
    done, seconds = best_of(rounds, lambda: read(source, range(cycles)))
    return Row(f"simulator, chunks of {events:,} of {ads:,} ads", done, seconds)


BENCHMARKS = (simulator,)


def main() -> None:
    """Run all benchmarks and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    with reported("sources", options.readme, options.quick):
        print(f"| {'source':<48} | {'events':>10} | {'events/s':>10} |")
        print(f"|{'-' * 50}|{'-' * 11}:|{'-' * 11}:|")
        for benchmark in BENCHMARKS:
            for row in benchmark(1 if options.quick else 3):
                rate = row.events / row.seconds
                print(f"| {row.what:<48} | {row.events:>10,} | {rate:>10,.0f} |", flush=True)


if __name__ == "__main__":
    main()
