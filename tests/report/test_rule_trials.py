"""The matrix and the ablation: what they plan, what they measure, and the page that they make."""

from pathlib import Path

import pandas as pd
import pytest

from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import ArmConfig
from scripts.bench.regrets.streams import Size, open_stream
from scripts.results import ablation, matrix
from scripts.results.rule_table import KEYS, planned, with_kept_rows
from scripts.results.served_bar import bar_table, served_bars
from scripts.results.trials import SELECTIONS, RuleTrial, TrialResult, measure, row_of
from trainer.setting import Setting

SIZE = Size(cycles=4, events=300)


SEEDS = (1, 2, 3, 4, 5)


def made_up(noise: float = 0.0, **of_holdfast: float) -> pd.DataFrame:
    """A table in which all rules are alike but for `holdfast`, whose losses move with the seed."""
    rows = []
    for trial in planned(matrix.RULES, ("calm", "stormy"), SEEDS, SIZE):
        same = {"served_logloss": 0.1, "gain": 0.2, "retained": 1.0, "useful": 0.9}
        row = {"stream": trial.stream, "seed": trial.seed, "select": trial.select}
        found = {**row, "rule": trial.name, "compute_lost": 0.0, **same}
        if trial.name == "holdfast":
            found |= of_holdfast
            found["served_logloss"] += noise * (trial.seed - 3)
        rows.append(found)
    return pd.DataFrame(rows)


def test_every_rule_meets_every_stream_with_both_selections() -> None:
    trials = planned(matrix.RULES, ("calm", "stormy"), (101,), SIZE)
    assert len(trials) == 2 * len(SELECTIONS) * len(matrix.RULES)
    assert len({trial.path(Path("out")) for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    ("worse", "missed"),
    [
        ({}, "useful instances at least as many as those of any other rule: met on every stream."),
        ({"served_logloss": 0.10009}, "of the best other rule: met on 2."),
        ({"served_logloss": 0.1002}, "of the best other rule: missed on 2."),
        ({"retained": 0.998}, "retained 99.80%, not 99.9%"),
        ({"useful": 0.89}, "useful 89.0%, l2 90.0%"),
    ],
)
def test_a_missed_bar_is_named(worse: dict[str, float], missed: str) -> None:
    text = "\n".join(matrix.page_text(made_up(**worse)))
    assert text.count(missed) == (2 if missed.endswith(".") else 4)
    assert "not a result yet" not in text
    assert "| lineages | holdfast |" in text


@pytest.mark.parametrize(
    ("loss", "noise", "verdict"),
    [
        (0.1002, 1e-6, "missed"),
        (0.1000, 1e-6, "met"),
        (0.1002, 1e-4, "within noise"),
        (0.1000, 1e-4, "within noise"),
    ],
)
def test_a_verdict_looks_at_the_interval_and_shows_the_point(
    loss: float, noise: float, verdict: str
) -> None:
    rows = made_up(noise, served_logloss=loss)
    bars = served_bars(rows[rows["select"] == "champion"])
    assert [bar.stream for bar in bars] == ["calm", "stormy", "mean of streams"]
    for bar in bars:
        assert bar.verdict == verdict
        assert bar.behind.mean == pytest.approx(loss / 0.1 - 1, abs=1e-9)
        assert f"| {bar.behind.mean:+.2%} |" in "\n".join(bar_table([bar]))


def test_the_luck_of_the_best_of_six_is_taken_out() -> None:
    """Each other rule is lucky on one seed; none is better than `holdfast` on the others."""
    rows = made_up()
    lucky = rows["rule"].map({"l2": 1, "none": 2, "entropic": 3, "clippy": 4})
    rows.loc[rows["seed"] == lucky, "served_logloss"] = 0.09
    bar = served_bars(rows[rows["select"] == "champion"])[0]
    assert bar.behind.mean > 0.02
    assert bar.behind_blind == pytest.approx(0.0, abs=1e-9)


def test_two_seeds_give_no_verdict() -> None:
    rows = made_up(served_logloss=0.2)
    few = rows[(rows["seed"] <= 2) & (rows["select"] == "champion")]
    assert {bar.verdict for bar in served_bars(few)} == {"too few seeds"}
    assert [bar.behind.mean for bar in served_bars(few)] == pytest.approx([1.0] * 3)


def test_development_seeds_are_no_result() -> None:
    rows = made_up()
    text = "\n".join(matrix.page_text(rows.assign(seed=rows["seed"] + 100)))
    assert text.startswith(
        "*With seed 101, 102, 103, 104, 105 only, not with three or more of 1 to 5: a first"
    )


def test_a_rule_that_is_measured_again_replaces_its_own_rows_only() -> None:
    table = made_up()
    old = table[table["seed"] <= 3]
    new = table[(table["rule"] == "holdfast") | (table["seed"] > 3)].assign(gain=0.3)
    rows = with_kept_rows(new.sample(frac=1, random_state=1), old, tuple(matrix.RULES))
    pd.testing.assert_frame_equal(rows[KEYS], table[KEYS])
    again = (rows["rule"] == "holdfast") | (rows["seed"] > 3)
    assert set(rows.loc[again, "gain"]) == {0.3}
    assert set(rows.loc[~again, "gain"]) == {0.2}


def test_the_ablation_has_every_combination_of_parts() -> None:
    variants = dict(ablation.variants())
    assert len(variants) == 8
    assert variants["dual ascent + damping + wall"] == {"name": "holdfast"}
    for name, rule in variants.items():
        made = kernel_rule(
            ArmConfig.model_validate({"name": "a", "rule": rule}).rule,
            Setting(1.0, 1.0, 0.5, rho=0.1, dual_step=float(rule.get("dual_step", 30.0))),
        )
        assert (made.damping > 0) == ("damping" in name)
        assert (made.wall < 1e30) == ("wall" in name)
        assert (made.mu0 > 1e-10) == ("dual ascent" in name)


def test_every_trial_has_a_sound_config() -> None:
    stream = open_stream("calm", 101, Size(cycles=1, events=100))
    names = ("calm",)
    rules = {**matrix.RULES, **dict(ablation.variants())}
    for trial in planned(rules, names, (101,), SIZE):
        config = trial.config(stream)
        assert config.search.select.kind == trial.select
        assert config.arms[0].rule.name == trial.rule["name"]


def test_a_row_leaves_out_the_first_quarter() -> None:
    events, nothing = [100, 100, 100, 300], [0, 0, 0, 0]
    trial = RuleTrial("calm", 1, "champion", "none", {"name": "none"}, SIZE)
    result = TrialResult(events, [1.0] * 4, [None, 0.5, None, 0.5], [0, 8, 8, 4], [8, 0, 0, 4],
                         [0, 8, 4, 4], [800] * 4, [*nothing[:3], 400])  # fmt: skip
    row = row_of(trial, result)
    assert row["served_logloss"] == pytest.approx((50 + 100 + 150) / 500)
    assert (row["retained"], row["useful"]) == (20 / 24, 16 / 24)
    assert row["compute_lost"] == 400 / 2400


@pytest.mark.slow  # compiles
@pytest.mark.parametrize("select", SELECTIONS)
def test_a_trial_is_the_same_again(select: str) -> None:
    stream = open_stream("stormy", 101, SIZE)
    trial = RuleTrial("stormy", 101, select, "holdfast", {"name": "holdfast"}, SIZE, instances=3)
    found = measure(trial, stream)
    assert found == measure(trial, stream)
    assert found.retained == [3] * 4
    assert found.served[0] is None
    assert all(served is not None for served in found.served[1:])
