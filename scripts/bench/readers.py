"""Reader speed: events a second from Parquet, CSV and JSON lines, against plain pyarrow.

Plain pyarrow reading the same columns of the same file is the peer: our readers also cut the
stream into cycles, map columns, check every row and sort by time. Ratios of CPU time count all
threads, and the process that reads Parquet. Prints a Markdown table.

    .venv/bin/python scripts/bench/readers.py [--quick] [--readme]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from orchestrator.sources.files.config import FilesConfig
from orchestrator.sources.opening import open_source
from scripts.bench.page import add_options, reported
from trainer.features import Feature, FeatureSpec

SPEC = FeatureSpec(
    user=tuple(Feature(name) for name in ("age", "gender", "geo", "device", "hour")),
    ad=tuple(Feature(name) for name in ("creative", "campaign", "advertiser")),
)
BAR = 0.75
"""The share of plain pyarrow's speed that our readers should reach."""
PLAIN: dict[str, Callable[[Path], pa.Table]] = {
    "parquet": pq.read_table,
    "csv": pa.csv.read_csv,
    "jsonl": pa.json.read_json,
}


def write_events(folder: Path, events: int) -> dict[str, Path]:
    """The same events in the three formats."""
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "timestamp": np.sort(random.integers(1_704_067_200, 1_704_153_600, events)),
            "click": (random.random(events) < 0.03).astype(np.int8),
            "age": random.integers(18, 80, events),
            "gender": np.array(["f", "m", "x"])[random.integers(0, 3, events)],
            "geo": np.char.add("geo", random.integers(0, 200, events).astype(str)),
            "device": np.array(["phone", "desktop", "tablet"])[random.integers(0, 3, events)],
            "hour": random.integers(0, 24, events),
            "creative": np.char.add("cr", random.zipf(1.3, events).clip(0, 10**5).astype(str)),
            "campaign": np.char.add("ca", random.integers(0, 5000, events).astype(str)),
            "advertiser": random.integers(0, 500, events),
        }
    )
    paths = {kind: folder / f"events.{kind}" for kind in PLAIN}
    pq.write_table(table, paths["parquet"], row_group_size=1 << 17)
    pa.csv.write_csv(table, paths["csv"])
    table.to_pandas().to_json(paths["jsonl"], orient="records", lines=True)
    return paths


def read_ours(path: Path, cut: dict[str, float], mapping: bool) -> int:
    """All cycles of the file; the number of events."""
    columns = {"age": {"bins": [25, 35, 45, 55]}, "geo": {"slice": [0, 4]}} if mapping else {}
    config = {"path": str(path), "timestamp": {"unit": "s"}, "cut": cut, "columns": columns}
    stream = open_source(FilesConfig.model_validate(config), SPEC)
    total = cycle = 0
    while (events := stream.events(cycle)) is not None:
        total, cycle = total + len(events.table), cycle + 1
    return total


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """How long it takes, and how much CPU time."""
    begin, used = time.perf_counter(), cpu_seconds()
    work()
    return time.perf_counter() - begin, cpu_seconds() - used


def cpu_seconds() -> float:
    """The CPU time of this process and, on Linux, of its children that run."""
    found = time.process_time()
    for of_thread in Path("/proc/self/task").glob("*/children"):
        for child in of_thread.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            found += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return found


def main() -> None:
    """Measure and print: all readers in turn, so that other load falls on each alike."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--events", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    add_options(options)
    given = options.parse_args()
    events, rounds = (100_000, 3) if given.quick else (given.events, given.rounds)
    with reported("readers", given.readme, given.quick) as missed:
        print(f"pyarrow {pa.__version__}, {events:,} events of {len(SPEC.features)} features\n")
        missed += table(events, rounds)


def table(events: int, rounds: int) -> list[str]:
    """A row for each format; returns the bars that were missed."""
    missed = []
    print("| format | pyarrow, events/s | ours by count | by time | with bins | ratios | wanted |"
          " ratios of CPU time |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in write_events(Path(folder), events).items():
            runs: tuple[Callable[[], object], ...] = (
                partial(PLAIN[kind], path),
                partial(read_ours, path, {"events": 50_000}, False),
                partial(read_ours, path, {"minutes": 60}, False),
                partial(read_ours, path, {"minutes": 60}, True),
            )
            taken = np.array([[seconds(run) for run in runs] for _ in range(rounds)])
            speeds = " | ".join(f"{events / s:,.0f}" for s in taken[:, :, 0].min(axis=0))
            middle = np.median(taken[:, :1] / taken[:, 1:], axis=0)
            ratios, of_cpu = (", ".join(f"{ratio:.2f}" for ratio in each) for each in middle.T)
            print(f"| {kind} | {speeds} | {ratios} | >= {BAR} | {of_cpu} |", flush=True)
            if middle[:, 0].min() < BAR:
                missed.append(f"{kind}, ours ÷ pyarrow: {ratios}, not all >= {BAR}")
    return missed


if __name__ == "__main__":
    main()
