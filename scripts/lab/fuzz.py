"""Gives hostile inputs to Holdfast and checks that each is handled well.

Kinds of input: config, csv, jsonl, parquet, journal, model, lease, request. Each must end with
exit code 0 or 2, with one clean line per mistake, within seconds, in bounded memory, without a
secret in any output and without a write outside of the run folder. An input that fails is saved and
made smaller.

    .venv/bin/python scripts/lab/fuzz.py --minutes 10 --seed 1 [--only config]
    .venv/bin/python scripts/lab/fuzz.py --replay tests/lab/corpus
"""

import argparse
import hashlib
import json
import os
import re
import sys
import time
from collections import Counter
from pathlib import Path

from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.kinds import KINDS
from scripts.lab.fuzzing.shrink import shrink
from scripts.lab.fuzzing.workers import Found, Worker, prepare, run_alone

SHRINK_S = 10.0
PROGRESS_S = 10.0


def main() -> None:
    """Exit code 1 if anything was found."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", action="append", choices=list(KINDS), help="only this kind")
    options.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options.add_argument("--out", type=Path, default=Path("runs/fuzz-failures"))
    options.add_argument(
        "--replay", type=Path, nargs="+", help="run these files or folders instead"
    )
    given = options.parse_args()
    prepare()
    if given.replay:
        sys.exit(replay(given.replay))
    only = given.only or list(KINDS)
    found = fuzz(given.seed, only, given.minutes * 60, given.jobs, given.out.resolve())
    sys.exit(1 if found else 0)


def replay(places: list[Path]) -> int:
    """Run saved inputs; a line of JSON for each. Returns the exit code."""
    files = [f for p in places for f in (sorted(p.glob("*.case")) if p.is_dir() else [p])]
    failed = 0
    for file in files:
        finding = run_alone(Case.decode(file.read_bytes()))
        failed += finding is not None
        print(json.dumps({"file": str(file), "finding": finding and finding.what}), flush=True)
    return 1 if failed else 0


def fuzz(seed: int, only: list[str], seconds: float, jobs: int, out: Path) -> int:
    """Run inputs until the time is up; returns how many different findings there are."""
    began = shown = time.monotonic()
    workers = [Worker(seed, only, first, jobs) for first in range(jobs)]
    counts: Counter[str] = Counter()
    first: dict[tuple[str, str], Found] = {}
    try:
        while time.monotonic() - began < seconds:
            time.sleep(0.1)
            for found in (found for worker in workers for found in worker.look()):
                counts[found.kind] += 1
                key = (found.kind, found.what)
                if key not in first:
                    first[key] = found
                    print(f"{found.kind}: {found.what}: {save(found, out)}", flush=True)
            if time.monotonic() - shown > PROGRESS_S:
                shown = time.monotonic()
                print(summary(workers, counts, shown - began, len(first)), flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        line = summary(workers, counts, time.monotonic() - began, len(first))
        for worker in workers:
            worker.stop()
    failing = [found for found in first.values() if make_smaller(found, out)]
    print(f"seed {seed}: {line}; fail again: {len(failing)}")
    return len(failing)


def summary(workers: list[Worker], counts: Counter[str], seconds: float, different: int) -> str:
    """How many inputs were run, how fast, and what was found."""
    inputs = sum(worker.done for worker in workers)
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"
    return (
        f"{inputs} inputs in {seconds:.0f} s, {inputs / seconds:.0f} a second; "
        f"failed: {by_kind}; different: {different}"
    )


def save(found: Found, out: Path) -> Path:
    """Write a failing input, and what is wrong with it beside it; returns the input's path."""
    out.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", found.what.lower())[:60].strip("-")
    number = hashlib.sha256(f"{found.kind} {found.what}".encode()).hexdigest()[:6]
    path = out / f"{found.kind}-{slug}-{number}.case"
    path.write_bytes(found.data)
    path.with_suffix(".txt").write_text(f"{found.what}\n\n{found.detail}\n", "utf-8", "replace")
    return path


def make_smaller(found: Found, out: Path) -> bool:
    """Replace a saved input by a smaller one that fails in the same way.

    False if it was only slow, and is not when it runs alone.
    """
    case = Case.decode(found.data)

    def still_fails(candidate: Case) -> bool:
        finding = run_alone(candidate)
        return finding is not None and finding.what == found.what

    if not still_fails(case):
        print(f"{found.kind}: {found.what}: does not fail again", flush=True)
        return not found.what.startswith("takes more than")
    small = shrink(case, KINDS[case.kind].simpler, still_fails, SHRINK_S)
    save(Found(found.kind, found.what, found.detail, small.encode()), out)
    print(f"{found.kind}: {found.what}: {len(found.data)} to {len(small.encode())} bytes")
    return True


if __name__ == "__main__":
    main()
