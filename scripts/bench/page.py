"""What every benchmark shares: its block of the page, how busy the machine was, and missed bars."""

import io
import os
import platform
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

from divergence.errors import InputError, one_line
from scripts.results.readme import BENCH, Tee, replace_block

QUIET = 0.1
"""The largest share of the cores that other work may use on a quiet machine."""
LOOK_S = 1.0
"""For how long the machine is looked at before and after a benchmark."""
_STAT = Path("/proc/stat")


class Load(NamedTuple):
    """How busy the machine is while this process waits."""

    busy: float  # the share of all cores, hypervisor's other guests included
    average: float  # the system's load average over a minute

    def __str__(self) -> str:
        return f"{self.busy:.0%} of the cores busy, load average {self.average:.1f}"


def load_now(seconds: float | None = None) -> Load:
    """Look at the machine, LOOK_S seconds long. Only Linux tells more than its load average."""
    before = _ticks()
    time.sleep(LOOK_S if seconds is None else seconds)
    after, average = _ticks(), os.getloadavg()[0]
    if before is None or after is None or after[0] == before[0]:
        return Load(min(1.0, average / (os.cpu_count() or 1)), average)
    return Load(1 - (after[1] - before[1]) / (after[0] - before[0]), average)


def _ticks() -> tuple[int, int] | None:
    """(all, idle) ticks of the cores since the system began."""
    if not _STAT.exists():
        return None
    numbers = [int(word) for word in _STAT.read_text().splitlines()[0].split()[1:9]]
    return sum(numbers), numbers[3] + numbers[4]


def add_options(parser: ArgumentParser) -> None:
    """The options of every benchmark."""
    parser.add_argument("--readme", action="store_true", help=f"write the tables to {BENCH}")
    parser.add_argument("--quick", action="store_true", help="under a minute: rougher figures")


@contextmanager
def reported(block: str, readme: bool, quick: bool = False) -> Iterator[list[str]]:
    """Around a benchmark: the machine and its load, then the bars that were missed.

    The block of this name on the page gets all that is printed meanwhile. Yields a list for the
    bars that are missed; the process exits with 1 if there are any. A benchmark that fails says so
    on the page, too: its old figures do not stay.
    """
    kept, missed = io.StringIO(), list[str]()
    fault: BaseException | None = None
    with redirect_stdout(Tee(kept)):
        before = load_now()
        print(f"{machine()}{', --quick' if quick else ''}\n")
        try:
            yield missed
        except (Exception, SystemExit) as error:  # an interrupt leaves the page as it is
            fault = error
            print(f"\n**FAILED**: {type(error).__name__}: {one_line(error)}")
        print(f"\n{load_sentence(before, load_now())}")
        for miss in missed:
            print(f"\n**MISSED**: {miss}")
    if readme:
        replace_block(BENCH, block, kept.getvalue())
    if isinstance(fault, InputError):  # Ray does not start: no bug of the benchmark
        sys.exit(str(fault))
    if fault is not None:
        raise fault
    if missed:
        sys.exit(1)


def load_sentence(before: Load, after: Load) -> str:
    """What the machine did before and after a benchmark, and whether that is quiet."""
    quiet = max(before.busy, after.busy) <= QUIET
    verdict = "The machine was quiet" if quiet else "**The machine was not quiet**"
    return f"{verdict}: before {before}; after {after}."


def machine() -> str:
    """The processor, its cores, and Python's version."""
    return f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def processor() -> str:
    """The processor, as the system names it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (x.split(":")[1].strip() for x in lines if x.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def reaches(measured: str, wanted: str) -> bool:
    """Whether the first number of `measured` is as `wanted` says: ">= 0.95" or "<= 1.1"."""
    number, (sign, bar) = float(measured.split()[0]), wanted.split()
    return number >= float(bar) if sign == ">=" else number <= float(bar)
