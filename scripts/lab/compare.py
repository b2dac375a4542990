"""Compares a run with a calm run of the same config, bit for bit."""

import subprocess
import sys
from pathlib import Path

from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import reproducible_part
from orchestrator.storage.open import open_store
from orchestrator.storage.store import read
from scripts.lab.cluster import ROOT

ARMS = ("production", "entropic")


def compare(config: Path, out: str, alone: Path) -> str:
    """Run as many cycles on this machine alone; the verdict as a sentence."""
    cycles = len(cycles_of(open_store(out), ARMS[-1]))
    command = [sys.executable, "-m", "orchestrator", "run", str(config), "--out", str(alone)]
    subprocess.run(
        [*command, "--set", f"cycles={cycles}"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL
    )
    found, expected = bits(out), bits(str(alone))
    if found != expected:
        keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        sys.exit(f"soak: {len(keys)} of {len(expected)} files differ, the first is {keys[0]}")
    return f"{cycles} cycles, {len(found)} records and models: the same bits as a calm run."


def bits(out: str) -> dict[str, object]:
    """Records less the clock, and model files."""
    store = open_store(out)
    found: dict[str, object] = {}
    for arm in ARMS:
        for cycle in cycles_of(store, arm):
            record = reproducible_part(read_record(store, arm, cycle))
            found[f"{arm} {cycle}"] = record.model_dump_json()
        for name in store.names(f"models/{arm}"):
            found[f"{arm} {name}"] = read(store, f"models/{arm}/{name}")
    return found
