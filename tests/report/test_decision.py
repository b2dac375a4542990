import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from orchestrator.cli import holdfast
from orchestrator.report.advice import Advice, Evidence, advise, served_cycles_needed
from orchestrator.report.assemble import sections_of
from orchestrator.report.decision import Decision, decisions
from orchestrator.report.interval import Estimate, cycles_for, mean_interval
from orchestrator.report.load import Run
from orchestrator.report.measures import loss_text, lost_compute, ratio_of_means
from orchestrator.report.study import Pair, Study
from orchestrator.storage.open import open_store
from support.configs import ARMS, config, simulated
from support.made_up_runs import autoregressive, made_up_records, write_run

OWN = "[{name: old, rule: decay}, {name: new, rule: clippy}, {name: third, rule: max_norm}]"
NONE = Estimate(0.0, -0.01, 0.01, 50)


def around(mean: float, reach: float, count: int = 50) -> Estimate:
    return Estimate(mean, mean - reach, mean + reach, count)


def decided(
    arms: str = OWN, cycles: int = 96, challenger: str | None = None, **kinds: dict[str, float]
) -> Decision:
    given = simulated(arms)
    made = made_up_records(given, cycles, **kinds)
    records = {arm.name: tuple(r for r in made if r.arm == arm.name) for arm in given.arms}
    [found] = decisions(Study((Run("run", "run", given, records, ()),), None, challenger))
    return found


@pytest.mark.parametrize(
    ("lift", "useful", "cost", "advice"),
    [
        (around(0.5, 0.2), NONE, NONE, Advice.SWITCH),
        (around(-0.5, 0.2), around(0.2, 0.1), NONE, Advice.STAY),  # log-loss comes first
        (around(0.1, 0.2), NONE, NONE, Advice.EARLY),
        (around(0.0, 0.05), NONE, NONE, Advice.STAY),  # the same, and nothing to gain
        (around(0.0, 0.05), around(0.2, 0.1), NONE, Advice.SWITCH),  # more useful instances
        (around(0.0, 0.05), around(0.2, 0.1), around(0.5, 0.1), Advice.STAY),  # which cost more
        (around(0.0, 0.05), NONE, around(-0.5, 0.1), Advice.SWITCH),  # cheaper
        (around(0.0, 0.05), around(-0.2, 0.1), around(-0.5, 0.1), Advice.STAY),
        (around(-0.05, 0.2), around(0.2, 0.1), NONE, Advice.EARLY),  # may be clearly worse
        (Estimate(3.0, math.nan, math.nan, 5), NONE, NONE, Advice.EARLY),
    ],
)
def test_log_loss_decides_then_what_training_costs(
    lift: Estimate, useful: Estimate, cost: Estimate, advice: Advice
) -> None:
    assert advise(Evidence(lift, useful, cost)) is advice


def test_about_as_many_cycles_as_it_says_decide() -> None:
    rng = np.random.default_rng(5)
    series = 0.3 + 2.0 * autoregressive(rng, 20_000, 0.5)
    few = mean_interval(series[:60])
    needed = cycles_for(few, 0.3)
    assert 300 < needed < 3000
    reach = mean_interval(series[:needed])
    assert 0.15 < (reach.high - reach.low) / 2 < 0.6
    assert cycles_for(few, 1e-9) == 1_000_000
    assert cycles_for(few, 1e9) == 60
    assert served_cycles_needed(Evidence(around(0.05, 0.2, 60), NONE, NONE)) > 60


@pytest.mark.parametrize("arms", [OWN, "[{name: old, rule: entropic}, {name: new, rule: none}]"])
def test_any_two_arms_have_a_decision(arms: str) -> None:
    better = decided(arms, lift={"new": 2.0}, challenger="new")
    assert better.advice is Advice.SWITCH
    assert better.headline == "Switch to new"
    assert "The served log-loss of new is " in better.reason
    assert (better.cycles, better.counted) == (96, 95)
    assert better.basis.startswith("Based on 96 cycles of both arms; 95 of them count")
    worse = decided(arms, lift={"new": -2.0}, challenger="new")
    assert (worse.advice, worse.headline) == (Advice.STAY, "Stay with old")
    assert "higher" in worse.reason
    rows = {one.key: one for one in better.measures}
    assert list(rows) == [
        "served_logloss", "retained", "useful", "lost_compute", "training_seconds",
    ]  # fmt: skip
    assert rows["training_seconds"].found.known
    assert 0 < rows["served_logloss"].challenger < rows["served_logloss"].baseline


def test_any_arm_can_be_the_challenger_and_the_others_are_named() -> None:
    found = decided(challenger="third")
    assert (found.baseline, found.challenger, found.others) == ("old", "third", ("new",))
    assert "Other arms against old: new: too early, log-loss 0." in found.basis
    swapped = decided(ARMS, challenger="production")  # else the baseline
    assert (swapped.baseline, swapped.challenger) == ("entropic", "production")


def test_of_several_challengers_the_best_is_shown() -> None:
    found = decided(lift={"new": 1.0, "third": 2.0})
    assert (found.challenger, found.headline) == ("third", "Switch to third")
    assert found.other_advice[0].startswith("new: switch, log-loss 0.9")
    assert "--arm third" in found.next_step
    sure = decided(lift={"new": -2.0, "third": -1.0})
    assert (sure.challenger, sure.headline) == ("third", "Stay with old")


def test_the_cost_is_the_ratio_of_the_means_beside_it() -> None:
    ours, theirs = pd.Series([1.0, 2.0, 9.0] * 8), pd.Series([4.0, 4.0, 1.0] * 8)
    found = ratio_of_means(ours, theirs)
    assert math.exp(found.mean) == pytest.approx(4.0 / 3.0)
    assert found.low < found.mean < found.high
    assert not ratio_of_means(ours * 0, theirs).known
    cost = decided().measures[-1]
    assert math.exp(cost.found.mean) == pytest.approx(cost.challenger / cost.baseline)


@pytest.mark.parametrize("start", ["", ", start_from: {arm: production, cycle: 8}"])
def test_fewer_cycles_never_ask_for_fewer_more(start: str) -> None:
    arms = ARMS.replace("rule: entropic}", f"rule: entropic{start}}}")
    first = 9 if start else 2
    more = [decided(arms, cycles=cycles).more_cycles or 0 for cycles in range(first, first + 10)]
    assert more == sorted(more, reverse=True)
    assert more[0] > more[-1] > 0


def test_too_early_says_how_long_to_wait() -> None:
    open_ = decided(ARMS, cycles=30)
    assert open_.advice is Advice.EARLY
    assert open_.more_cycles is not None
    assert open_.more_cycles > 10
    assert "To decide at this variance takes about " in open_.reason
    tiny = decided(ARMS, cycles=3)
    assert tiny.more_cycles == 10  # cycle 0 has no served champion
    assert tiny.reason == (
        "An interval takes 12 cycles that count, served by both arms, and 2 count so far. At least "
        "10 more are needed."
    )
    start = ARMS.replace("entropic}", "entropic, start_from: {arm: production, cycle: 8}}")
    forked = decided(start, cycles=14)  # of 6 shared cycles one is acclimation, of 16 four
    assert forked.more_cycles == 10
    assert forked.reason.endswith(
        "and 5 count so far. At least 10 more are needed, 3 of them for a longer acclimation."
    )


def test_a_run_over_files_goes_on_when_files_are_added() -> None:
    given = config(
        "source: {kind: files, path: events, cut: {events: 40}}\n"
        f"features: {{user: [age], ad: [ad], timestamp: null}}\narms: {ARMS}\n"
    )
    made = made_up_records(given, 9)
    records = {arm.name: tuple(r for r in made if r.arm == arm.name) for arm in given.arms}
    [found] = decisions(Study((Run("lin", "lin", given, records, ()),)))
    assert found.next_step == (
        "Next: continue lin to 13 cycles: add files with later events, then the same command."
    )


def test_a_single_arm_has_no_decision() -> None:
    given = simulated("[{name: only, rule: none}]")
    run = Run("run", "run", given, {"only": tuple(made_up_records(given, 20))}, ())
    assert decisions(Study((run,))) == ()


def test_compute_lost_is_the_time_of_what_was_not_retained() -> None:
    rows = pd.DataFrame(
        {
            "cycle": [0, 0, 1, 1, 2],
            "status": ["retained", "diverged", "retained", "retained", "late"],
            "seconds": [3.0, 1.0, 1.0, 1.0, 0.0],
        }
    )
    assert lost_compute(rows).tolist()[:2] == [0.25, 0.0]
    assert math.isnan(lost_compute(rows)[2])


def test_log_loss_in_words() -> None:
    assert loss_text(around(0.31, 0.19)) == "0.31% lower (0.12 to 0.50)"
    assert loss_text(around(-0.31, 0.19)) == "0.31% higher (0.12 to 0.50)"
    assert loss_text(around(0.1, 0.3)) == "0.10% lower (0.20 higher to 0.40 lower)"
    assert loss_text(Estimate(math.nan, math.nan, math.nan, 0)) == "unknown"


def test_the_papers_claims_are_first_in_its_own_design_only() -> None:
    starting = ARMS.replace(
        "rule: entropic}", "rule: entropic, start_from: {arm: production, cycle: 8}}"
    )
    for arms, first in ((starting, "retained"), (ARMS, "rules"), (OWN, "rules")):
        given = simulated(arms)
        made = made_up_records(given, 30)
        records = {arm.name: tuple(r for r in made if r.arm == arm.name) for arm in given.arms}
        study = Study((Run("run", "run", given, records, ()),))
        assert sections_of(study)[0].key == first


@pytest.mark.slow
def test_terminal_brief_and_json_begin_with_it(tmp_path: Path) -> None:
    given = simulated(OWN)
    write_run(open_store(str(tmp_path)), given, made_up_records(given, 40, lift={"third": 3.0}))

    def told(*options: str) -> str:
        arguments = ["report", str(tmp_path), "--challenger", "third", *options]
        done = CliRunner().invoke(holdfast, arguments, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    box = told().splitlines()
    assert "Switch to third" in box[1]
    assert "log-loss" in box[2]
    assert told("--brief").startswith("Switch to third. The served log-loss of third is ")
    [found] = json.loads(told("--json"))["decisions"]
    assert (found["advice"], found["baseline"], found["challenger"]) == ("switch", "old", "third")
    loss = found["measures"]["served_logloss"]
    assert 0 < loss["low"] < loss["mean"] < loss["high"]
    assert found["measures"]["training_seconds"]["mean"] == pytest.approx(1.0, abs=0.2)
    html = (tmp_path / "report.html").read_text()
    assert html.index("Switch to third") < html.index('class="runs soft"')


def test_the_rest_of_a_cut_cycle_does_not_count_for_the_log_loss() -> None:
    events = [6000, 6000, 7, 6000, 0]
    ours = pd.DataFrame({"served_logloss": [0.29, 0.29, 0.01, 0.29, np.nan], "events": events})
    theirs = pd.DataFrame({"served_logloss": [0.3, 0.3, 0.3, 0.3, np.nan], "events": events})
    found = Pair("run", "a", "b", ours, theirs, 0)
    assert found.lift().notna().tolist() == [True, True, False, True, False]
    assert found.mean_lift().mean == pytest.approx(100 / 30)
