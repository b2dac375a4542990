"""The regret benchmark: its streams, its methods by the product's own code, and its arithmetic."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.config.schema import RunConfig
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.storage.open import open_store
from scripts.bench.regret import main
from scripts.bench.regrets.mean_of import mean_name
from scripts.bench.regrets.methods import DEFAULT, FIXED, METHODS, TOGETHER
from scripts.bench.regrets.results import BenchTask, Result
from scripts.bench.regrets.streams import Size, open_stream
from scripts.bench.regrets.table import BEST, Comparison, bars
from support.runs import records

TINY = Size(cycles=7, events=300)


def test_a_method_serves_what_a_run_would_serve(tmp_path: Path) -> None:
    stream = open_stream("stormy", 101, TINY)
    (lineages,) = (replace(m, together=(4,)) for m in METHODS if m.name == "lineages")
    found = lineages.run(stream)
    assert found["mean-of-4"] != found["lineages"]
    for name, mean_of in (("lineages", 1), ("mean-of-4", 4)):
        changes = {
            "cycles": TINY.cycles,
            "search": {"select": {"kind": "lineages"}},
            "arms": [{"name": "lineages", "rule": "entropic"}],
            "serve": {"mean_of": mean_of},
        }
        config = RunConfig.model_validate(stream.config.model_dump() | changes)
        store = open_store(str(tmp_path / name))
        run(config, store, prepare(store, config), [], LocalLinePool)
        served = [record.served_logloss for record in records(tmp_path / name, "lineages")]
        assert served == found[name]


def test_switching_takes_turns() -> None:
    size = Size(cycles=19, events=200)
    switching = open_stream("switching", 101, size)
    ads = [set(one.chunk.ad_keys.values) for one in switching.chunks if one.chunk]
    assert len(ads[0] & ads[1]) > 20
    assert len(ads[17] & ads[18]) < len(ads[16] & ads[17]) / 2


def test_the_command_resumes_and_prints_every_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = BenchTask("calm", 101, "none", Size(8, 1_000))
    for method in METHODS:
        path = task.path(tmp_path, method)
        path.parent.mkdir(exist_ok=True)
        names = FIXED if method.grid else (method.name, *map(mean_name, method.together))
        found = {name: [None, 0.05, 0.04] for name in names}
        path.write_text(json.dumps({"events": [9, 9, 9], "constant": [0.1] * 3, "served": found}))
    arguments = ["--quick", "--stream", "calm", "--rule", "none", "--out", str(tmp_path)]
    shown = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "(55.00%)" in shown.output
    assert shown.output.count(": met |") + shown.output.count(": **missed** |") == 3 * 3
    assert CliRunner().invoke(main, ["--seeds", "one"]).exit_code == 2


def result(**served: float) -> Result:
    means = dict.fromkeys(map(mean_name, TOGETHER), 0.06)
    known = dict.fromkeys(FIXED, 0.09) | {DEFAULT: 0.08} | means | served
    return Result([1, 10], [0.1, 0.1], {name: [None, each] for name, each in known.items()})


def test_bars_are_of_paired_differences() -> None:
    found = {}
    for seed, shift in ((101, 0.0), (102, 0.003), (103, -0.004)):
        fixed = {FIXED[0]: 0.07 + shift}
        each = {"champion": 0.08 + shift, "no-replacement": 0.08, "lineages": 0.069 + shift}
        found["switching", seed] = result(**fixed, **each)
        found["calm", seed] = result(**fixed, **each | {"lineages": 0.0706 + shift})
    comparison = Comparison.of(found)
    assert comparison.gains["calm", 101][BEST] == pytest.approx(30.0)
    assert [bar.met for bar in bars(comparison, "lineages")] == [True, False, True, True]
    regret = comparison.below("lineages", BEST, ["switching"])
    assert (regret.mean, regret.low, regret.high) == pytest.approx((-1.0,) * 3)
