from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from orchestrator.cli import holdfast
from orchestrator.report.aborts import AbortId, parse_filename
from support.configs import small
from support.runs import go_here, records
from trainer.outcome import Status

pytestmark = pytest.mark.slow


def report(where: Path, *options: str) -> str:
    done = CliRunner().invoke(holdfast, ["report", str(where), *options], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_real_run_is_reported_and_its_aborts_are_trained_again(tmp_path: Path) -> None:
    where = tmp_path / "run"
    go_here(small("search.ranges.eta0={low: 1, high: 300}"), where)
    told = report(where, "--aborts", "2")
    assert "Vectors just before an abort" in told
    cycles = pd.read_parquet(where / "cycles.parquet")
    assert len(cycles) == 8
    assert cycles[cycles["cycle"] > 0]["served_logloss"].notna().all()
    assert cycles["max_inf"].notna().all()
    kept = sorted((where / "aborts" / "run").glob("*.parquet"))
    assert len(kept) == 2
    assert "The story of a divergence" in told
    [story] = (where / "aborts" / "run").glob(
        "*.story.json"
    )  # of production: it has no dual ascent
    assert story.name.startswith("production-cycle-")
    for file in kept:
        which = parse_filename(file.name)
        assert which is not None
        record = next(r for r in records(where, which.arm) if r.cycle == which.cycle)
        lost = record.outcomes[which.instance].divergence
        assert lost is not None
        vectors = pd.read_parquet(file)
        worst = vectors[(vectors["feature"] == lost.feature) & (vectors["value"] == lost.value)]
        assert worst["norm"].item() == pytest.approx(lost.norm, nan_ok=True)
    assert "The story of a divergence" in report(where)  # they are kept
    lost = [
        (r.arm, r.cycle, o.instance)
        for arm in ("production", "entropic")
        for r in records(where, arm)
        for o in r.outcomes
        if o.status is Status.DIVERGED
    ]
    known = {parse_filename(file.name) for file in kept}
    arm, cycle, instance = next(one for one in lost if AbortId(*one) not in known)
    report(where, "--abort", f"{arm}:{cycle}:{instance}")
    assert (where / "aborts" / "run" / AbortId(arm, cycle, instance).filename).exists()
    for asked, rule in (
        ("production:99:1", "did not diverge in any run"),
        ("x", "must be ARM:CYCLE:"),
    ):
        refused = CliRunner().invoke(holdfast, ["report", str(where), "--abort", asked])
        assert refused.exit_code != 0
        assert rule in str(refused.exception or refused.output)


def test_a_run_that_goes_on_can_be_reported(tmp_path: Path) -> None:
    where = tmp_path / "run"
    go_here(small("cycles=1"), where)
    assert "1 of 1 cycles" in report(where)
    go_here(small("cycles=3"), where)
    assert "run: 3 cycles" in report(where)
