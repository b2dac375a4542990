"""Trains on a cluster of several hosts, injects random faults and prints a table of them.

The table shows the seconds from each fault until two more cycles are committed (the cycle that was
running is one of them) and until every worker trains again. At the end the run is compared, bit for
bit, with a run without faults.

    sudo .venv/bin/python scripts/lab/soak.py --minutes 10 --seed 1 [--tls] [--readme]
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import reproducible_part
from orchestrator.storage.open import open_store
from orchestrator.storage.store import read
from scripts.lab.cluster import ROOT, LabCluster
from scripts.lab.netlab import Lab
from scripts.lab.tls import tls_environment
from scripts.results.readme import CLUSTER, replace_block

CONFIG = """
seed: 11
source: {kind: simulator, preset: stormy, events_per_cycle: 20000}
search: {instances: 16}
arms:
  - {name: production, rule: l2}
  - {name: entropic, rule: entropic}
"""
Fault = Callable[[LabCluster, random.Random], str]
Faults = Mapping[Fault, int]
FAULTS: dict[Fault, int] = {
    LabCluster.kill_trainer: 4,
    LabCluster.kill_node: 3,
    LabCluster.cut_link: 3,
    LabCluster.kill_driver: 2,
    LabCluster.kill_head: 1,
    LabCluster.second_driver: 1,
}
"""How often each happens, in proportion."""
CYCLES = 2


def main() -> None:
    """Faults until the time is up, at least one of each kind; then the comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--hosts", type=int, default=3)
    options.add_argument("--tls", action="store_true", help="with Ray's TLS between the hosts")
    options.add_argument("--readme", action="store_true", help=f"write the table to {CLUSTER}")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="hf-soak-") as folder, Lab(given.hosts) as lab:
        config = Path(folder) / "soak.yaml"
        config.write_text(CONFIG)
        cluster = LabCluster(lab, Path(folder), config, Path(folder) / "run")
        if given.tls:
            cluster.env |= tls_environment(Path(folder), [host.address for host in lab.hosts])
        faults = dict(FAULTS)
        if not lab.isolated:
            print("no network namespaces here: links are not cut", file=sys.stderr)
            del faults[LabCluster.cut_link]
        lines = soak(cluster, faults, random.Random(given.seed), given.minutes * 60)
        lines.append(compare(config, cluster.out, Path(folder) / "alone"))
    if given.readme:
        head = f"`scripts/lab/soak.py --minutes {given.minutes:g} --seed {given.seed}`, "
        replace_block(CLUSTER, "soak", f"{head}{given.hosts} hosts\n\n" + "\n".join(lines))


def soak(cluster: LabCluster, faults: Faults, chance: random.Random, seconds: float) -> list[str]:
    """The table, line by line as it happens."""
    lines: list[str] = []
    add_line(lines, "| at | what happened | two more cycles | all workers train |")
    add_line(lines, "|---|---|---|---|")
    began = time.monotonic()
    up = cluster.time_until(lambda: cluster.committed() >= CYCLES and cluster.all_train())
    add_line(lines, f"| 0 s | start | {up:.1f} s | {up:.1f} s |")
    calm = until_committed(cluster, cluster.committed() + CYCLES)
    add_line(lines, f"| {time.monotonic() - began:.0f} s | nothing | {calm:.1f} s | |")
    for fault in plan(faults, chance):
        if time.monotonic() - began > seconds and len(lines) >= len(faults) + 4:
            break
        time.sleep(chance.uniform(0, 3))
        at, before = time.monotonic(), cluster.committed()
        what = fault(cluster, chance)
        until_committed(cluster, before + CYCLES)
        recovered = time.monotonic() - at
        cluster.time_until(cluster.all_train)
        complete = time.monotonic() - at
        add_line(lines, f"| {at - began:.0f} s | {what} | {recovered:.1f} s | {complete:.1f} s |")
    cluster.stop()
    return lines


def until_committed(cluster: LabCluster, cycles: int) -> float:
    """The seconds until the journal has this many cycles."""
    return cluster.time_until(lambda: cluster.committed() >= cycles)


def plan(faults: Faults, chance: random.Random) -> Iterator[Fault]:
    """Every fault once in random order, then without end by their weights."""
    once = list(faults)
    chance.shuffle(once)
    yield from once
    while True:
        yield chance.choices(list(faults), list(faults.values()))[0]


def compare(config: Path, out: Path, alone: Path) -> str:
    """Run as many cycles on this machine alone; the verdict as a line."""
    cycles = len(cycles_of(open_store(str(out)), "entropic"))
    command = [sys.executable, "-m", "orchestrator", "run", str(config), "--out", str(alone)]
    subprocess.run(
        [*command, "--set", f"cycles={cycles}"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    found, expected = bits(out), bits(alone)
    same = [key for key in expected if found.get(key) == expected[key]]
    if found != expected:
        sys.exit(f"soak: {len(expected) - len(same)} of {len(expected)} files differ")
    verdict = f"{cycles} cycles, {len(same)} records and models: the same bits as a calm run."
    print(f"\n{verdict}", flush=True)
    return f"\n{verdict}"


def bits(out: Path) -> dict[str, object]:
    """Records less the clock, and model files."""
    store = open_store(str(out))
    found: dict[str, object] = {}
    for arm in ("production", "entropic"):
        for cycle in cycles_of(store, arm):
            record = reproducible_part(read_record(store, arm, cycle))
            found[f"{arm} {cycle}"] = record.model_dump_json()
        for name in store.names(f"models/{arm}"):
            found[f"{arm} {name}"] = read(store, f"models/{arm}/{name}")
    return found


def add_line(lines: list[str], line: str) -> None:
    """Show a line now and keep it."""
    print(line, flush=True)
    lines.append(line)


if __name__ == "__main__":
    main()
