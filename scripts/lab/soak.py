"""Trains on a cluster of several hosts, injects random faults and prints a table of them.

The run folder is on object storage, champions are published to a small disk, and a serving process
follows them. The table shows, for each kind of fault, the seconds until two more cycles are
committed (the cycle that was running is one of them). At the end the run is compared, bit for bit,
with a run without faults.

    sudo .venv/bin/python scripts/lab/soak.py --faults 1000 --seed 1 [--tls] [--readme]
    sudo .venv/bin/python scripts/lab/soak.py --minutes 10 --seed 1
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from orchestrator.publish.place import version_numbers
from orchestrator.storage.open import open_store
from scripts.lab.compare import ARMS, compare
from scripts.lab.faults import FAULTS, Fault, endless_plan, plan
from scripts.lab.reader import WatchedService
from scripts.lab.stage import CONFIG, Scene, staged
from scripts.results.readme import CLUSTER, replace_block

CYCLES = 2
PAUSE_S = 0.8
"""The longest pause between faults."""
MOST_PENDING = 10
"""No further fault while the run has not recovered from more than this."""
LIMIT_S = 400.0
"""The longest recovery: storage is retried for 300 s."""
TEND_S = 1.0
GROWTH = 1.25
"""How much more memory a process may use in the last quarter than in the second."""


class Pending(NamedTuple):
    """A fault that the run has not recovered from."""

    fault: Fault
    at: float
    cycles: int
    """How many must be committed."""


def main() -> None:
    """Faults until all have happened or the time is up; then the comparison."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--faults", type=int, help="stop after this many faults")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--hosts", type=int, default=3)
    options.add_argument("--tls", action="store_true", help="with Ray's TLS between the hosts")
    options.add_argument("--readme", action="store_true", help=f"write the table to {CLUSTER}")
    options.add_argument("--log", type=Path, help="keep the output of the run and of Ray here")
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="hf-soak-") as name,
        staged(folder := Path(name), given.hosts, given.tls) as scene,
    ):
        scene.cluster.log = given.log or scene.cluster.log
        faults = [fault for fault in FAULTS if not fault.needs or fault.needs in scene.able]
        for missing in [fault for fault in FAULTS if fault not in faults]:
            print(f"cannot be made here: {missing.name}", file=sys.stderr)
        chance = random.Random(given.seed)
        if given.faults is None:
            chosen = until(given.minutes * 60, endless_plan(faults, chance))
        else:
            chosen = iter(plan(faults, chance, given.faults))
        lines = Soak(scene).run(chosen, chance)
        (calm := folder / "calm.yaml").write_text(CONFIG)
        lines.append(compare(calm, scene.cluster.out, folder / "alone"))
    print("\n".join(lines))
    if given.readme:
        amount = f"--faults {given.faults}" if given.faults else f"--minutes {given.minutes:g}"
        head = f"`scripts/lab/soak.py {amount} --seed {given.seed}`, {given.hosts} hosts"
        replace_block(CLUSTER, "soak", f"{head}\n\n" + "\n".join(lines))


def until(seconds: float, faults: Iterator[Fault]) -> Iterator[Fault]:
    """Faults until the time is up, but at least one of each kind."""
    end = time.monotonic() + seconds
    for number, fault in enumerate(faults):
        if time.monotonic() > end and number >= len(FAULTS):
            return
        yield fault


class Soak:
    """Injects faults, keeps the cluster up and notes how long recovery takes."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.cluster = scene, scene.cluster
        self.pending: list[Pending] = []
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        """By kind of fault, how long each recovery took."""
        self.memory: defaultdict[str, list[int]] = defaultdict(list)
        self._reader: WatchedService | None = None
        self._began, self._tended = time.monotonic(), 0.0

    def run(self, faults: Iterable[Fault], chance: random.Random) -> list[str]:
        """From the start of the cluster to the end of the run; the table and the verdicts."""
        cluster, place = self.cluster, str(self.scene.disk.folder / "published")
        self.watch(lambda: cluster.committed() >= CYCLES and cluster.all_train())
        self.watch(lambda: bool(version_numbers(open_store(place))))
        up = time.monotonic() - self._began
        with closing(WatchedService(place, cluster.log)) as self._reader:
            cycles = cluster.committed()
            self.watch(lambda: cluster.committed() >= cycles + CYCLES)
            for fault in faults:
                self.inject(fault, chance)
            cluster.wait_until_healed()
            self.watch(lambda: not self.pending and cluster.all_train())
            took, cycles = time.monotonic() - self._began - up, cluster.committed()
            self.watch(lambda: cluster.committed() >= cycles + CYCLES)
            assert cluster.stop() == 130, "the driver did not stop as it was asked to"
            served = self._reader.finish(cluster.out, ARMS[0])
        for host in (cluster.head, *cluster.workers):
            host.kill()
        total = sum(map(len, self.seconds.values()))
        summary = f"{total} faults in {took / 60:.0f} minutes, after a start of {up:.0f} s."
        return [*self.table(), "", summary, self.exits(), served, self.growth()]

    def inject(self, fault: Fault, chance: random.Random) -> None:
        """Let a fault happen, and wait if it is heavy or if too many are pending."""
        cluster, go_on = self.cluster, time.monotonic() + chance.uniform(0, PAUSE_S)
        self.watch(lambda: time.monotonic() >= go_on and self.can_fail())
        wanted, at = cluster.committed() + CYCLES, time.monotonic()
        what = fault.happen(self.scene, chance)
        print(f"{at - self._began:.1f} s, {wanted - CYCLES} cycles: {what}", flush=True)
        self.pending.append(Pending(fault, at, wanted))
        most = 0 if fault.heavy else MOST_PENDING
        self.watch(lambda: len(self.pending) <= most)

    def can_fail(self) -> bool:
        """Whether there is a driver, and a trainer."""
        driver = self.cluster.driver
        return driver is not None and driver.poll() is None and any(self.cluster.trainers())

    def watch(self, done: Callable[[], bool]) -> None:
        """Keep the cluster up and note what is committed until `done`."""
        end = time.monotonic() + LIMIT_S
        while True:
            now, committed = time.monotonic(), self.cluster.committed()
            for each in [each for each in self.pending if committed >= each.cycles]:
                self.pending.remove(each)
                self.seconds[each.fault.name].append(now - each.at)
            if now > self._tended + TEND_S:
                self.cluster.tend()
                self.look_at_processes()
                self._tended = now
            if done():
                return
            if now > end:
                raise TimeoutError(f"not recovered after {LIMIT_S:.0f} s: {self.pending}")
            time.sleep(0.1)

    def look_at_processes(self) -> None:
        """Note how much memory they use; AssertionError where one did what it must not."""
        codes = [code for code in self.cluster.exits if code != 2]
        assert not codes, f"a driver ended with exit code {codes[0]}"
        if self._reader is not None and self.cluster.driver is not None:
            self._reader.check()
            self.memory["driver"].append(resident_mb(self.cluster.driver.pid))
            self.memory["serving"].append(resident_mb(self._reader.process.pid))

    def table(self) -> list[str]:
        """A row for each kind of fault."""
        rows = ["| fault | times | two more cycles: median | longest |", "|---|---|---|---|"]
        for fault in FAULTS:
            if found := self.seconds[fault.name]:
                middle, longest = statistics.median(found), max(found)
                rows.append(f"| {fault.name} | {len(found)} | {middle:.1f} s | {longest:.1f} s |")
        return rows

    def exits(self) -> str:
        """How often the driver ended by itself."""
        times = Counter(self.cluster.exits)[2]
        return f"{times} drivers ended because storage denied them access or failed at their start."

    def growth(self) -> str:
        """The memory of driver and serving; AssertionError where it grew."""
        texts = []
        for name, sizes in self.memory.items():
            quarter = len(sizes) // 4
            before = statistics.median(sizes[quarter : 2 * quarter] or sizes)
            after = statistics.median(sizes[-quarter:])
            assert after <= GROWTH * before, f"{name} grew from {before:.0f} to {after:.0f} MB"
            texts.append(f"{name} {before:.0f} and {after:.0f} MB")
        return f"Memory in the second and the last quarter: {', '.join(texts)}."


def resident_mb(pid: int) -> int:
    """The resident memory of a process; 0 if it has just ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 // 2**20
    except (OSError, IndexError):
        return 0


if __name__ == "__main__":
    main()
