"""The A/B test in the marketplace: small, but whole."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from divergence.errors import InputError
from orchestrator import cli
from orchestrator.ab import folder
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import Counts, Day, Finished, InstanceCounts, Trial, total
from orchestrator.ab.counts_file import read_counts
from orchestrator.ab.summary import summarise
from orchestrator.ab.trial import Exchange, run_trial
from orchestrator.ab.tuner import Tuner
from orchestrator.config.file import read_as_config
from orchestrator.report.interval import Estimate
from orchestrator.sources.simulator.marketplace import Market
from orchestrator.sources.simulator.source import Simulator
from orchestrator.sources.simulator.spec import SPEC
from orchestrator.storage.open import open_store
from trainer.features import FeatureSpec

SMALL = """
seeds: [1, 2]
source: {kind: simulator, preset: stormy, signal: faint, events_per_cycle: 300,
         users: 2000, ads: 100,
         cycle_minutes: 240}
features: {user: [age, gender, device], ad: [campaign, category]}
search: {instances: 3}
control: {name: production, rule: l2}
treatment: {name: entropic, rule: entropic}
auction: {candidates: 10}
acclimation_days: 0
days: 2
"""


def small(*assignments: str) -> AbConfig:
    return read_as_config(AbConfig, SMALL, "ab.yaml", assignments)


@pytest.fixture(scope="module")
def finished() -> Finished:
    return run_trial(small(), 1)


def test_a_trial_is_the_same_every_time(finished: Finished) -> None:
    assert run_trial(small(), 1) == finished
    assert run_trial(small(), 2) != finished


def test_all_requests_are_sold_and_each_arm_has_its_share(finished: Finished) -> None:
    trial = finished.trial
    assert (trial.name, trial.control, trial.treatment) == ("seed 1", "production", "entropic")
    assert [day.day for day in trial.days] == [1, 2]
    control, treatment = trial.totals
    assert control.views + treatment.views == pytest.approx(2 * 6 * 300, rel=0.2)
    assert treatment.views / (control.views + treatment.views) == pytest.approx(0.5, abs=0.1)
    for counts in (control, treatment):
        assert 0 < counts.clicks < counts.views
        assert 0.05 <= counts.cost / counts.clicks <= 5.0
    old, new = finished.tallies
    assert old.launched == 3 * 6 * 3
    assert new.launched == 2 * 6 * 3


@pytest.mark.parametrize("rule", ["l2", "entropic"])
def test_an_aa_test_of_twins_is_exactly_zero(rule: str) -> None:
    config = small(f"control.rule={rule}", "treatment.name=again", f"treatment.rule={rule}")
    twins = run_trial(config, 101, design="twins")
    summary = summarise([twins.trial])
    assert twins.tallies[0].launched > twins.tallies[1].launched  # the warm-up
    for lift in (*summary.days, *summary.trials, summary.whole):
        assert lift.observed == (0.0, 0.0)
        assert lift.control == lift.treatment
        assert lift.control.clicks > 0
    zero = Estimate(0.0, 0.0, 0.0, 12)
    assert summary.whole.interval == (zero, zero)
    split = summarise([run_trial(config, 101).trial])
    assert all(lift.observed[i] != 0.0 for lift in (*split.days, split.whole) for i in (0, 1))


def test_twins_meet_the_same_requests_and_learn_from_their_own_outcomes() -> None:
    twins = run_trial(small(), 101, design="twins")
    control, treatment = twins.trial.totals
    assert control.views == treatment.views
    assert (control.clicks, control.cost) != (treatment.clicks, treatment.cost)
    for day in twins.trial.days:
        assert len(day.cycles) == 6
        assert tuple(total(arm) for arm in zip(*day.cycles, strict=True)) == (
            day.control,
            day.treatment,
        )


def test_the_same_ad_shown_to_the_same_visit_gets_the_same_coin() -> None:
    world = Simulator(small().source).marketplace
    n = 20_000
    ads, half = np.arange(n) % 7, np.full(n, 0.5)
    others = np.where(np.arange(n) % 2, ads, ads + 1)
    clicks, again = world.clicks_on(3, ads, half), world.clicks_on(3, others, half)
    same = ads == others
    assert np.array_equal(clicks[same], again[same])
    # Coins of other ads and of other cycles are independent.
    assert np.mean(clicks[~same] == again[~same]) == pytest.approx(0.5, abs=0.03)
    assert np.mean(clicks == world.clicks_on(4, ads, half)) == pytest.approx(0.5, abs=0.02)
    assert clicks.mean() == pytest.approx(0.5, abs=0.02)


def test_champions_choose_better_ads_than_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all bids are equal, a trained tuner's ads are clicked more than an empty one's."""
    monkeypatch.setattr(Market, "bids", lambda _, ads: np.ones(len(ads)))
    market = ("preset=calm", "ctr=0.05", "cycle_minutes=15", "events_per_cycle=2000")
    config = small(*(f"source.{knob}" for knob in market))
    exchange = Exchange(config, 1)
    spec = FeatureSpec(SPEC.user[:2] + SPEC.user[3:4], (SPEC.ad[1], SPEC.ad[3]))
    trained, empty = (Tuner(config.tuning(1), config.control, spec) for _ in range(2))
    for cycle in range(20):
        trained.learn(cycle, exchange.sell(cycle, (trained, trained), split=False).events)
    ours, theirs = (
        sum(exchange.sell(cycle, (t, t), split=False).counts(0).clicks for cycle in range(20, 30))
        for t in (trained, empty)
    )
    assert ours > 1.15 * theirs, (ours, theirs)


def test_arms_learn_from_their_own_traffic_or_from_all(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[int]] = {"production": [], "entropic": []}

    def learn(self: Tuner, cycle: int, events: object) -> None:
        seen[self.state.name].append(len(events))  # type: ignore[arg-type]

    monkeypatch.setattr(Tuner, "learn", learn)
    for traffic in ("own", "pooled"):
        run_trial(small(f"learn_from={traffic}", "days=1"), 1)
        both = zip(seen["production"][6:], seen["entropic"], strict=True)
        assert all((old == new) == (traffic == "pooled") for old, new in both)
        assert len(seen["entropic"]) == 6
        seen = {"production": [], "entropic": []}


@pytest.mark.parametrize(
    ("assignment", "told"),
    [
        ("treatment.name=production", "must have different names, but both are 'production'"),
        ("treatment.start_from={arm: production, cycle: 3}", "start_from must not be given"),
        ("source=toy", "'kind' must be one of simulator"),
        ("seeds=[1, 1]", "seeds: must be different"),
        ("design=triplets", "design: should be 'split', 'twins' or 'both'"),
        ("share=1.0", "share: should be less than 1"),
        ("dayz=3", "dayz: unknown key (did you mean days?)"),
        ("search.sampler={kind: adaptive, follow: production}", "follow must not be given"),
        ("auction.candidates=1", "auction.candidates: should be greater than or equal to 2"),
    ],
)
def test_mistakes_in_the_config_are_told(assignment: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        small(assignment)
    assert told in str(error.value)


def test_twins_cannot_pool_their_traffic() -> None:
    with pytest.raises(InputError, match="learn_from must be own with design: both"):
        small("design=both", "learn_from=pooled")


# -- the folder and the commands -------------------------------------------------------------------

Holdfast = Callable[..., tuple[int, str, str]]


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Holdfast:
    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["holdfast", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return run


def made_up(seed: int, better: float) -> Finished:
    days = tuple(
        Day(d, Counts(50_000, 1500 + d, 700.0), Counts(50_000, round(1500 * better) + d, 715.0 + d))
        for d in (1, 2, 3)
    )
    trial = Trial(f"seed {seed}", "production", "entropic", days)
    return Finished(trial, (InstanceCounts(100, 10), InstanceCounts(100, 1)))


@pytest.mark.slow
def test_a_test_is_run_once_and_gone_on_with(holdfast: Holdfast, tmp_path: Path) -> None:
    config, out = tmp_path / "ab.yaml", tmp_path / "out"
    text = SMALL.replace("seeds: [1, 2]", "seeds: [1]").replace("days: 2", "days: 1")
    config.write_text(text)
    code, told, err = holdfast("ab", "run", str(config), "--out", str(out))
    assert code == 0, err
    assert "seed 1: day 2 of 2" in err
    assert "CTR" in told
    before = (out / "trials/seed-0000000001.json").read_bytes()
    code, again, err = holdfast("ab", "run", str(config), "--out", str(out))
    assert (code, again) == (0, told)
    assert "skipping 1 of 1 trials: already finished" in err
    assert (out / "trials/seed-0000000001.json").read_bytes() == before
    assert {"ab.html", "counts.csv", "figures"} <= {path.name for path in out.iterdir()}
    assert [trial.name for trial in read_counts(str(out / "counts.csv"))] == ["seed 1"]
    # Twins join the split in the same folder; the split is neither run nor written again.
    code, told, err = holdfast("ab", "run", str(config), "--out", str(out), "--set", "design=both")
    assert code == 0, err
    assert "skipping 1 of 2 trials: already finished" in err
    assert "seed 1, twins: day 2 of 2" in err
    assert "entropic (treatment) against production (control): split, 95% credible" in told
    assert "entropic (treatment) against production (control): twins, 95% paired" in told
    assert (out / "trials/seed-0000000001.json").read_bytes() == before
    assert (out / "trials/twins-seed-0000000001.json").exists()
    page = (out / "ab.html").read_text()
    assert "Online A/B test: twins" in page
    assert [trial.name for trial in read_counts(str(out / "counts-twins.csv"))] == ["seed 1"]
    code, _, err = holdfast("ab", "run", str(config), "--out", str(out), "--set", "share=0.3")
    assert code == 2
    assert "holds an A/B test with a different config" in err


def test_trials_are_kept_as_they_are(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    given = [made_up(seed, 1.01) for seed in (3, 12)]
    for seed, one in zip((12, 3), reversed(given), strict=True):
        folder.save(store, seed, one)
    assert folder.load(store) == given
    path = tmp_path / "trials/seed-0000000003.json"
    path.write_bytes(path.read_bytes().replace(b"50000", b"60000"))
    with pytest.raises(InputError, match=r"corrupt.*delete it"):
        folder.load(store)


def test_the_analysis_of_counts_decides_by_trials(holdfast: Holdfast, tmp_path: Path) -> None:
    """Three trials that agree decide; their sum alone may not."""
    store = open_store(str(tmp_path))
    for seed, better in ((1, 1.03), (2, 1.035), (3, 1.04)):
        folder.save(store, seed, made_up(seed, better))
    code, out, err = holdfast("ab", "analyse", str(tmp_path), "--json", "--out", str(tmp_path))
    assert code == 0, err
    found = json.loads(out)
    assert found["deciding"]["CTR"]["low"] > 0
    assert found["verdict"].startswith("both of the paper's lifts appear here.")
    assert found["deciding"]["CTR"]["basis"] == "Student's 95% interval over 3 trials"
    assert len(found["days"]) == len(found["trials"]) == 3
    page = (tmp_path / "ab.html").read_text()
    assert "the CTR lift is above zero" in page
    assert "By day, all trials pooled" in page
    code, out, _ = holdfast("ab", "analyse", str(tmp_path / "counts.csv"))
    assert code == 0
    assert re.search(r"CTR \+3\.\d+% .*: there is a lift", out)


def test_the_report_has_the_ab_section(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for seed in (1, 2, 3):
        folder.save(store, seed, made_up(seed, 1.0 + 0.001 * seed))
    [section] = folder.ab_sections(store)
    assert section.findings[0].verdict is not None
    assert [len(chart.panels) for chart in section.charts] == [2, 2]
    assert "neither of the paper's two lifts appears here" not in section.findings[0].text
    by_day, by_trial = section.tables
    assert [row[0].text for row in by_day.rows] == ["1", "2", "3"]
    assert [row[0].text for row in by_trial.rows] == ["seed 1", "seed 2", "seed 3", "all"]
    assert by_trial.rows[0][-1].text == "1.00%"
    assert re.fullmatch(r"[+-]\d\.\d\d% \(.* to .*\)", by_day.rows[0][1].text)
    pairs = ((Counts(500, 15, 7.0), Counts(500, 15 + i % 3, 7.0 + i % 2)) for i in range(24))
    cycles = tuple(pairs)
    control, treatment = (total(arm) for arm in zip(*cycles, strict=True))
    days = (Day(1, control, treatment, cycles),)
    trial = Trial("seed 1", "production", "entropic", days, "twins")
    folder.save(store, 1, Finished(trial, (InstanceCounts(100, 10), InstanceCounts(100, 1))))
    assert [one.trial for one in folder.load(store)][-1] == trial
    [_, twins] = folder.ab_sections(store)
    assert twins.key == "ab-twins"
    assert "the paper's +0.93% lies outside the interval" in twins.findings[0].text
    assert "95% paired interval" in twins.findings[0].text
