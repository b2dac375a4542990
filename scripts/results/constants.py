"""Chooses the constants of rules, draws and first vectors on development seeds.

Every rule gets the same effort: 20 candidates on three seeds, then its best five on a fourth, with
longer chunks. All candidates see the same events and the same draws. The best has the lowest mean
served log-loss. The retained fraction plays no part, nor any comparison between rules: these are
what the report judges, on other seeds.

    .venv/bin/python scripts/results/constants.py --out runs/constants
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import click
import pandas as pd
import yaml

from orchestrator.report.frames import cycles_frame
from orchestrator.report.load import load_runs
from orchestrator.report.sections.retained import HEAVY
from scripts.results.readme import ROOT

HOLDFAST = str(Path(sys.executable).with_name("holdfast"))
TABLES = Path(__file__).with_name("tables")
SEEDS = (101, 102, 103)
FINAL_SEED = 104
FINALISTS = 5
WARM_UP = 12
"""Cycles that are not counted: the first models know nothing."""
CYCLES = 48
LAM = (1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
BOUNDS = (0.03, 0.1, 0.3, 1.0)
DRAWS = ((0.05, 30), (0.15, 30), (0.3, 30), (0.6, 30), (0.3, 10), (0.3, 100))
"""init_std, and how far eta0 and alpha are drawn from the champion's."""

Rule = dict[str, Any]


def candidates() -> Iterator[tuple[str, Rule]]:
    """The name of every candidate, and its rule."""
    for low, decades in product(LAM, (0, 1, 2, 3)):
        high = low * 10**decades
        lam = {"low": low, "high": high} if decades else low
        yield f"l2_{low:g}_{high:g}", {"name": "l2", "lam": lam}
    for k, step in product(BOUNDS, (10, 30, 100, 300, 1000)):
        yield f"entropic_{k:g}_{step}", _dual("entropic", k, step)
    for k, step in product(BOUNDS, (1, 10, 100, 1000, 10000)):
        yield f"euclidean_{k:g}_{step}", _dual("euclidean", k, step)
    for k in (0.01 * 1.5**i for i in range(20)):
        yield f"projection_{k:.3g}", {"name": "projection", "rho": {"k": float(f"{k:.3g}")}}
    for relative, absolute in product((0.1, 0.2, 0.5, 1.0, 2.0), (0.02, 0.05, 0.1, 0.3)):
        rule = {"name": "clippy", "relative": relative, "absolute": absolute}
        yield f"clippy_{relative:g}_{absolute:g}", rule
    for damping, k in product((0.1, 0.3, 1.0, 3.0), BOUNDS):
        yield f"holdfast_{damping:g}_{k:g}_30", _holdfast(damping, k, 30)
    for step in (10, 100, 300, 1000):
        yield f"holdfast_0.3_0.1_{step}", _holdfast(0.3, 0.1, step)


def _dual(name: str, k: float, step: float) -> Rule:
    floor = {"mu0": 1e-4, "mu_floor": 1e-4}
    return {"name": name, "rho": {"k": k}, "dual_step": step, "implicit": True, **floor}


def _holdfast(damping: float, k: float, step: float) -> Rule:
    """The wall is at rho0, whatever k is."""
    return {"name": "holdfast", "rho": {"k": k}, "dual_step": step, "damping": damping,
            "wall": 1 / k}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A run with several candidates as arms."""

    name: str
    seed: int
    arms: dict[str, Rule]
    events: int = 10_000
    instances: int = 12
    init_std: float = 0.3
    width: float = 30

    def config(self) -> dict[str, Any]:
        """Its config."""
        market = {"kind": "simulator", "preset": "stormy", "signal": "criteo", "seed": self.seed}
        spread = {"eta0": self.width, "alpha": self.width, "beta": 1.6}
        return {
            "seed": self.seed,
            "cycles": CYCLES,
            "source": market | {"events_per_cycle": self.events},
            "model": {"init_std": self.init_std},
            "search": {
                "instances": self.instances,
                "sampler": {"kind": "adaptive", "explore": 0.2, "spread": spread},
            },
            "arms": [{"name": name, "rule": rule} for name, rule in self.arms.items()],
            "retention": {"keep_last": 1},
        }

    def run(self, folder: Path) -> str:
        """Run or resume it; its folder."""
        path = folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(self.config()), encoding="utf-8")
        out = str(folder / self.name)
        subprocess.run([HOLDFAST, "run", str(path), "--out", out], cwd=ROOT, check=True)
        return out


@click.command()
@click.option("--out", default="runs/constants", show_default=True, help="Folder of the runs.")
def main(out: str) -> None:
    """Run every candidate on the development seeds and write the tables; resumable."""
    folder = Path(out).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    every = dict(candidates())
    first = measure([CandidateRun(f"all-{seed}", seed, every).run(folder) for seed in SEEDS])
    first.to_csv(TABLES / "constants.csv", float_format="%.5g")
    best = {name for _, rows in first.groupby("rule") for _, name in rows.head(FINALISTS).index}
    finalists = {name: every[name] for name in every if name in best}
    last = CandidateRun("finalists", FINAL_SEED, finalists, events=20_000, instances=16).run(folder)
    measure([last]).to_csv(TABLES / "constants-finalists.csv", float_format="%.5g")
    drawn = ("l2_1e-05_0.001", "entropic_0.1_100", "euclidean_0.1_100")
    rows = []
    for (init_std, width), seed in product(DRAWS, SEEDS):
        trial = CandidateRun(f"std-{init_std:g}-width-{width:g}-{seed}", seed,
                      {name: every[name] for name in drawn}, init_std=init_std,
                      width=width)  # fmt: skip
        found = measure([trial.run(folder)]).reset_index()
        rows.append(found.assign(init_std=init_std, width=width, seed=seed))
    pd.concat(rows).to_csv(TABLES / "constants-draws.csv", index=False, float_format="%.5g")


def measure(runs: list[str]) -> pd.DataFrame:
    """One row per rule and candidate, the best of each rule first."""
    cycles = cycles_frame(load_runs(runs).runs)
    cycles = cycles[cycles["cycle"] >= WARM_UP]
    cycles["served_gain"] = 1 - cycles["served_logloss"] / cycles["constant_logloss"]
    cycles["heavy_losses"] = (1 - cycles["retained_fraction"] > HEAVY).astype(float)
    columns = ["served_logloss", "served_gain", "retained_fraction", "useful_fraction",
               "heavy_losses"]  # fmt: skip
    means = cycles.groupby(["rule", "arm"])[columns].mean()
    return means.sort_values(["rule", "served_logloss"])


if __name__ == "__main__":
    main()
