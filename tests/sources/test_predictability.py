"""The reference model's gain over a constant CTR, where the truth is known."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from orchestrator.commands import describe as command
from orchestrator.sources.describe.predictability import (
    MIN_CLICKS,
    Predictability,
    Reference,
    predictability_line,
)
from orchestrator.sources.protocol import Events
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.source import Simulator
from support.streams import SINGLE, table_of

MARKET = {"events_per_cycle": 8_000, "users": 5_000, "ads": 200, "ctr": 0.1, "daily_swing": 0}
STILL = {
    "interaction_sd": 0.0,
    "quality_sd": 0.0,
    "hidden_sd": 0.0,
    "fatigue": 0.0,
    "shocks_per_day": 0.0,
}


def measured(**knobs: object) -> tuple[Simulator, Predictability]:
    """Eight cycles of a small market."""
    source = Simulator(SimulatorConfig.model_validate(MARKET | knobs))
    reference = Reference(source.spec)
    for cycle in range(8):
        reference.add(source.events(cycle))
    return source, reference.result()


def test_the_ideal_is_that_of_the_truth_and_the_model_is_below_it() -> None:
    source, found = measured(signal="criteo")
    p = np.concatenate([source.truth(cycle) for cycle in range(2, 8)])
    clicked = np.concatenate([source.events(c).table["click"].to_numpy() for c in range(2, 8)]) > 0
    ctr = clicked.mean()
    constant = -(ctr * np.log(ctr) + (1 - ctr) * np.log(1 - ctr))
    ideal = 1 + np.log(np.where(clicked, p, 1 - p)).mean() / constant
    assert (found.events, found.clicks) == (len(p), clicked.sum())
    assert found.ideal == pytest.approx(ideal)
    assert found.gain is not None
    assert 0.1 < found.gain < ideal
    faint = measured(signal="faint")[1]
    assert faint.gain is not None
    assert faint.gain < found.gain - 0.05


def test_without_a_signal_there_is_nothing_to_gain() -> None:
    _, found = measured(**STILL)
    assert found.ideal == pytest.approx(0.0, abs=1e-3)  # the constant knows the CTR
    assert found.gain == pytest.approx(0.0, abs=0.02)


def test_a_cycle_is_scored_before_the_model_trains_on_it() -> None:
    """Clicks are chance here: only a model that has seen them already would gain."""
    reference = Reference(SINGLE)
    for cycle in range(4):
        reference.add(Events(cycle, table_of(4_000, seed=cycle), ""))
    gain = reference.result().gain
    assert gain is not None
    assert gain < 0.0


def test_too_few_clicks_do_not_tell() -> None:
    reference = Reference(SINGLE)
    assert reference.result().unknown is not None
    reference.add(Events(0, table_of(4_000), ""))
    assert reference.result().events == 0  # all of it is the first quarter
    reference.add(Events(1, table_of(0), ""))
    reference.add(Events(2, table_of(1_000, seed=2), ""))
    found = reference.result()
    assert (found.events, found.gain) == (1_000, None)
    assert found.clicks < MIN_CLICKS
    assert predictability_line(found) == (
        f"predictability: too few clicks to tell: {found.clicks} after the first quarter of the "
        "cycles, and it takes 500"
    )


def test_lines() -> None:
    logs = "than a constant CTR; public logs: Taobao 3%, Avazu 18%, Criteo 23%"
    better, worse = (Predictability(9_999, 999, gain, None, None) for gain in (0.2211, -0.012))
    assert predictability_line(better) == f"a reference model predicts clicks 22.1% better {logs}"
    assert predictability_line(worse) == f"a reference model predicts clicks 1.2% worse {logs}"
    simulated = predictability_line(Predictability(9_999, 999, 0.2211, 0.31, None))
    assert " (the simulator's own probabilities: 31.0%); public logs" in simulated


def test_the_command_measures_files(tmp_path: Path) -> None:
    """Some ages click more often than others; ads say nothing."""
    draw = np.random.default_rng(5)
    age, ad = draw.integers(0, 2, 12_000), draw.integers(0, 5, 12_000)
    click = draw.random(12_000) < np.where(age == 1, 0.7, 0.3)
    lines = zip(click.astype(int), age, ad, strict=True)
    text = "click,age,ad\n" + "".join(f"{c},{a},{b}\n" for c, a, b in lines)
    (tmp_path / "events.csv").write_text(text)
    (tmp_path / "run.yaml").write_text(
        f"source: {{kind: files, path: {tmp_path}/events.csv, cut: {{events: 2000}}}}\n"
        "features: {user: [age], ad: [ad], timestamp: null}\n"
    )
    result = CliRunner().invoke(command.command, [str(tmp_path / "run.yaml"), "--json"])
    assert result.exit_code == 0, result.exception
    found = json.loads(result.output)["predictability"]
    best = 1 + (0.7 * np.log(0.7) + 0.3 * np.log(0.3)) / np.log(2)
    assert found["gain"] == pytest.approx(best, abs=0.03)
    assert (found["events"], found["ideal"], found["unknown"]) == (8_000, None, None)
    result = CliRunner().invoke(command.command, [str(tmp_path / "run.yaml")])
    line = result.output.splitlines()[1]
    assert line.startswith(f"a reference model predicts clicks {found['gain']:.1%} better than a")
