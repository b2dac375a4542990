"""The simulated market against its config: every knob does what its name says, by how much."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from orchestrator.sources.simulator import chance
from orchestrator.sources.simulator.config import PRESETS, SimulatorConfig
from orchestrator.sources.simulator.marketplace import Market, Marketplace
from orchestrator.sources.simulator.source import Simulator

DAY = 96  # cycles
WEEK = 7 * DAY
STILL = {  # a market in which nothing happens, to which a test adds what it is about
    "signal": "faint",
    "users": 20_000,
    "ads": 400,
    "campaign_lifetime_h": 1e5,
    "depletion_share": 0.0,
    "pauses_per_day": 0.0,
    "flags_per_week": 0.0,
    "daily_swing": 0.0,
    "weekly_swing": 0.0,
    "mix_swing": 0.0,
    "drift_share": 0.0,
    "fatigue": 0.0,
    "shocks_per_day": 0.0,
}


def world(**knobs: float) -> Marketplace:
    return Marketplace(SimulatorConfig.model_validate(STILL | knobs))


def markets(place: Marketplace, cycles: range) -> Iterator[Market]:
    return (place.market(cycle) for cycle in cycles)


def live(place: Marketplace, cycles: range) -> NDArray[np.bool_]:
    """(cycles, campaigns)."""
    return np.array([market.campaigns.live for market in markets(place, cycles)])


def logit(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(p / (1 - p))


def test_rolls_are_uniform_and_normal() -> None:
    key = np.uint64(12345)
    bits = [np.uint64(chance.roll(key, chance.FIXED, i)) for i in range(20_000)]
    u, z = np.array([chance.uniform(b) for b in bits]), np.array([chance.normal(b) for b in bits])
    assert np.histogram(u, 10, (0, 1))[0] == pytest.approx(2000, abs=4 * np.sqrt(2000))
    assert (z.mean(), z.std()) == pytest.approx((0, 1), abs=0.03)
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.03
    assert len(set(bits)) == len(bits)


@settings(derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    period_h=st.floats(0.1, 1e4),
    now_h=st.floats(0, 1e6),
    later_h=st.floats(0, 1e5),
)
def test_lives_follow_each_other_without_a_gap(
    seed: int, period_h: float, now_h: float, later_h: float
) -> None:
    key = np.uint64(seed)
    number, birth_h = chance.renewal(key, now_h, period_h)
    age = (now_h - birth_h) / period_h
    assert -1e-6 <= age <= 1 + chance.JITTER
    following, next_birth_h = chance.renewal(key, now_h + later_h, period_h)
    assert following - number <= later_h / period_h + 1 + chance.JITTER
    assert (following > number) == (next_birth_h > birth_h)


@pytest.mark.parametrize("lifetime_h", [8.0, 100.0])
def test_campaigns_are_born_and_die_at_the_set_rate(lifetime_h: float) -> None:
    place = world(ads=4_000, campaign_lifetime_h=lifetime_h)
    cycles = range(0, int(4 * lifetime_h) * 4, 4)  # hourly for four lifetimes
    generations = np.array([m.campaigns.generation for m in markets(place, cycles)])
    steps = np.diff(generations, axis=0)
    assert steps.min() >= 0
    births_per_h = steps.sum() / len(steps)
    assert births_per_h == pytest.approx(1000 / lifetime_h, rel=0.1)


def test_a_dead_campaign_never_returns_and_a_new_one_is_another() -> None:
    place = world(campaign_lifetime_h=12.0)
    first, last = place.market(0).campaigns, place.market(WEEK).campaigns
    changed = first.generation != last.generation
    assert changed.mean() > 0.9
    assert not np.isin(last.identity[changed], first.identity).any()
    assert (last.age_h >= 0).all()
    assert (last.age_h[changed] <= WEEK / 4).all()


@pytest.mark.parametrize(
    ("knobs", "per_day", "hours"),
    [
        ({"pauses_per_day": 1.0, "pause_h": 3.0}, 1.0, 3.0),
        ({"flags_per_week": 1.75, "flag_h": 12.0}, 0.25, 12.0),
    ],
)
def test_pauses_and_flags_come_and_last_as_set(
    knobs: dict[str, float], per_day: float, hours: float
) -> None:
    here = live(world(ads=2_000, **knobs), range(8 * DAY))
    assert 1 - here.mean() == pytest.approx(per_day * hours / 24, rel=0.05)
    leaves, returns = (here[:-1] & ~here[1:]).sum(), (~here[:-1] & here[1:]).sum()
    assert leaves / (500 * 8) == pytest.approx(per_day, rel=0.05)
    assert returns / leaves == pytest.approx(1, rel=0.05)  # the same campaigns: none dies here


def test_a_spent_budget_lasts_until_midnight() -> None:
    here = live(world(ads=2_000, depletion_share=0.3), range(5 * DAY)).reshape(5, DAY, -1)
    assert here[:, 0].all()
    assert not (~here[:, :-1] & here[:, 1:]).any()  # nobody returns within the day
    assert 1 - here[:, -1].mean() == pytest.approx(0.3, abs=0.03)
    spent_at = here.sum(axis=1)[~here[:, -1]] / DAY
    assert spent_at.mean() == pytest.approx(2 / 3, abs=0.02)  # the later of two uniform times


def test_volume_follows_day_and_week() -> None:
    config = SimulatorConfig.model_validate(
        STILL | {"events_per_cycle": 300, "daily_swing": 0.5, "weekly_swing": 0.2}
    )
    place = Marketplace(config)
    counts = np.array([len(place.arrivals(cycle).user) for cycle in range(WEEK)])
    days = counts.reshape(7, DAY).mean(axis=1)
    assert counts.mean() == pytest.approx(300, rel=0.005)
    assert days[:5].mean() - days[5:].mean() == pytest.approx(0.2 * 300, rel=0.02)
    day = counts[:DAY]
    assert day.max() / day.min() == pytest.approx(1.5 / 0.5, rel=0.02)
    assert day.argmax() // 4 in (20, 21)


def test_without_swings_every_cycle_has_the_same_number() -> None:
    place = world(events_per_cycle=123)
    assert {len(place.arrivals(cycle).user) for cycle in range(0, WEEK, 13)} == {123}


def test_the_mix_follows_day_and_week() -> None:
    place = world(mix_swing=0.4)

    def desktops(cycle: int) -> float:
        return float((place.arrivals(cycle, 20_000).device == 1).mean())

    noon, midnight, weekend = 13 * 4, 4, 5 * DAY + 13 * 4
    assert desktops(noon) == pytest.approx(0.35 * 1.4, abs=0.02)
    assert desktops(midnight) == pytest.approx(0.35 * 0.6, abs=0.02)
    assert desktops(weekend) == pytest.approx(0.35 * 0.6, abs=0.02)

    weights = np.array([m.campaigns.weight for m in markets(place, range(0, DAY, 4))])
    swing = weights.max(axis=0) / weights.min(axis=0)
    assert swing == pytest.approx(1.4 / 0.6, rel=0.02)


@pytest.mark.parametrize(("signal", "highest"), [("faint", 0.25), ("criteo", 0.6)])
@pytest.mark.parametrize("preset", PRESETS)
def test_ctr_is_as_set(preset: str, signal: str, highest: float) -> None:
    config = SimulatorConfig.model_validate(
        {"preset": preset, "signal": signal, "events_per_cycle": 1_000, "users": 20_000}
    )
    source = Simulator(config)
    cycles = range(50, 20 * WEEK, 101)
    p = np.concatenate([source.truth(cycle) for cycle in cycles])
    assert p.mean() == pytest.approx(config.ctr, rel=0.1)
    assert np.quantile(p, 0.99) < highest
    assert p.min() > 0


def test_clicks_come_as_often_as_the_truth_says() -> None:
    source = Simulator(SimulatorConfig(preset="stormy", users=20_000, events_per_cycle=50_000))
    p = np.concatenate([source.truth(cycle) for cycle in range(0, WEEK, 60)])
    tables = [source.events(cycle).table["click"] for cycle in range(0, WEEK, 60)]
    clicks = np.concatenate([table.to_numpy() for table in tables])
    for part in np.array_split(np.argsort(p), 10):
        sigma = np.sqrt((p[part] * (1 - p[part])).sum())
        assert abs(clicks[part].sum() - p[part].sum()) < 4 * sigma


@pytest.mark.parametrize("skew", [0.7, 1.0, 1.3])
def test_popularity_is_zipf_like(skew: float) -> None:
    place = world(ads=4_000, popularity_skew=skew, campaign_lifetime_h=6.0)
    ranks = 1 + (np.arange(1000) + 0.5) / 1000 * 999
    expected = np.sort(ranks**-skew)[::-1]
    heads = []
    for cycle in range(0, 4 * WEEK, 67):
        ads = place.serve(place.market(cycle), 5_000)
        counts = np.sort(np.bincount(ads // 4, minlength=1000))[::-1]
        heads.append(counts[:100].sum() / 5_000)
    assert np.mean(heads) == pytest.approx(expected[:100].sum() / expected.sum(), abs=0.04)


def test_few_users_make_many_events() -> None:
    place = world(user_skew=0.5)
    user = place.arrivals(0, 100_000).user
    assert (user < 200).mean() == pytest.approx(0.1, abs=0.005)  # the busiest 1%
    even = world(user_skew=0.0).arrivals(0, 100_000).user
    assert (even < 200).mean() == pytest.approx(0.01, abs=0.002)
    assert place._people.activity.mean() == pytest.approx(1, rel=0.01)


def test_tastes_drift_by_the_set_share_in_the_set_time() -> None:
    place = world(drift_share=0.6, taste_drift_h=24.0, topics=500)

    def likeness(cycles: int) -> float:
        now, later = place.market(0).tastes.topic, place.market(cycles).tastes.topic
        return float(np.corrcoef(now.ravel(), later.ravel())[0, 1])

    assert likeness(1) > 0.99
    assert likeness(4 * DAY) == pytest.approx(0.4, abs=0.06)
    assert likeness(100 * DAY) == pytest.approx(0.4, abs=0.06)


def test_ad_quality_drifts() -> None:
    place = world(drift_share=1.0, quality_drift_h=6.0, interaction_sd=0.0)
    visits = place.visits(np.zeros(400, np.int64), np.full(400, place.start_us))
    ads = np.arange(400)

    def odds(cycle: int) -> NDArray[np.float64]:
        return logit(place.click_probability(place.market(cycle), visits, ads))

    now = odds(0)
    assert np.abs(odds(1) - now).mean() < 0.05
    assert np.abs(odds(2 * DAY) - now).mean() > 0.2


def test_shocks_are_sudden_fade_and_come_as_often_as_set() -> None:
    knobs = {"shocks_per_day": 2.0, "shock_h": 3.0, "shock_size": 1.0, "shock_reach": 0.5}
    shocked, still = world(**knobs), world()
    quality = still.market(0).category[:, -1]  # nothing else moves it here
    jolt = np.array([m.category[:, -1] - quality for m in markets(shocked, range(30 * DAY))])
    onset = (np.abs(np.diff(jolt, axis=0)) > 0.4).any(axis=1)  # decay is under 0.25 a cycle
    assert onset.sum() / 30 == pytest.approx(2.0, rel=0.15)
    struck = np.abs(np.diff(jolt, axis=0))[onset] > 0.4
    assert struck.mean() == pytest.approx(0.5, abs=0.08)
    assert np.abs(jolt).max() < 3.1  # two at once at the most
    assert (jolt != 0).any(axis=1).mean() == pytest.approx(2 * 3 / 24, rel=0.2)


def test_a_shock_shows_in_the_clicks() -> None:
    place = world(shocks_per_day=2.0, shock_size=1.5, shock_reach=0.5)
    calm = world()
    market = max(markets(place, range(WEEK)), key=lambda m: float(m.category[:, -1].max()))
    jolt = market.category[:, -1] - calm.market(market.cycle).category[:, -1]
    visits = place.arrivals(market.cycle, 20_000)
    ads = place.serve(market, 20_000)
    category = market.campaigns.category[ads // market.creatives]
    p, was = (w.click_probability(w.market(market.cycle), visits, ads) for w in (place, calm))
    for hit in np.flatnonzero(np.abs(jolt) > 0.5):
        rows = category == hit
        if rows.sum() > 100:
            assert (p[rows].mean() > was[rows].mean()) == (jolt[hit] > 0)
    assert (jolt > 0.5).any()


def test_fatigue_lowers_ctr_by_the_logarithm_of_views() -> None:
    tired, fresh = world(fatigue=0.5), world(ads=400)
    market, visits = tired.market(0), tired.arrivals(0, 5_000)
    ads = tired.serve(market, 5_000)
    lost = logit(fresh.click_probability(market, visits, ads)) - logit(
        tired.click_probability(market, visits, ads)
    )
    seen = np.log1p(tired._people.activity[visits.user] * market.exposure[ads // 4])
    assert np.polyfit(seen, lost, 1)[0] == pytest.approx(0.5, abs=1e-6)
    assert np.ptp(lost - 0.5 * seen) < 1e-9


def test_campaigns_wear_out() -> None:
    """In the log itself: campaigns late in life are clicked less than early, by fatigue alone."""

    def late_over_early(fatigue: float) -> float:
        place = world(campaign_lifetime_h=96.0, fatigue=fatigue, quality_sd=0.0)
        early, late = [], []
        for cycle in range(0, 8 * WEEK, 31):
            market, visits = place.market(cycle), place.arrivals(cycle, 1_000)
            ads = place.serve(market, 1_000)
            p = place.click_probability(market, visits, ads)
            age_h = market.campaigns.age_h[ads // market.creatives]
            early.append(p[age_h < 12])
            late.append(p[age_h > 96])
        return float(np.concatenate(late).mean() / np.concatenate(early).mean())

    assert late_over_early(0.0) == pytest.approx(1, abs=0.1)
    assert late_over_early(0.6) < 0.75


def test_some_of_the_truth_is_hidden_from_every_model() -> None:
    """Two users alike in every feature, at one time, before one ad: still not the same."""

    def spread(hidden_sd: float) -> float:
        place = world(hidden_sd=hidden_sd)
        visits = place.arrivals(0, 5_000)
        same = visits._replace(
            **{
                name: np.full_like(getattr(visits, name), 1)
                for name in ("age", "gender", "geo", "device", "hour", "last_category", "topic")
            }
        )
        p = place.click_probability(place.market(0), same, np.zeros(5_000, np.int64))
        return float(logit(p).std())

    assert spread(0.0) < 1e-6
    assert spread(0.4) == pytest.approx(0.4 * np.sqrt(0.5), rel=0.1)  # the users' own half


def test_the_interaction_is_as_strong_as_set() -> None:
    place = world(interaction_sd=0.8, quality_sd=0.0, hidden_sd=0.0, ads=4_000, categories=100)
    visits = place.arrivals(0, 50_000)
    p = place.click_probability(place.market(0), visits, np.arange(50_000) % 4_000)
    # Tastes in interests average over a few topics, so that a part of the variance is lost.
    assert 0.55 < logit(p).std() < 0.95


def test_last_category_is_often_that_of_an_interest() -> None:
    place = world()
    visits = place.arrivals(0, 20_000)
    favourite = visits.topic[visits.topic_offset[:-1]] % 24
    known = visits.last_category < 24
    assert 0.5 < known.mean() < 0.95
    assert (visits.last_category[known] == favourite[known]).mean() > 0.5


@pytest.mark.parametrize("preset", PRESETS)
def test_new_campaigns_appear_in_the_log(preset: str) -> None:
    source = Simulator(SimulatorConfig.model_validate({"preset": preset, "users": 5_000}))

    def seen(cycle: int) -> set[str]:
        return set(source.events(cycle).table["campaign"].combine_chunks().dictionary.to_pylist())

    gone = 1 - len(seen(0) & seen(DAY)) / len(seen(0))
    low, high = {"calm": (0.0, 0.3), "normal": (0.1, 0.5), "stormy": (0.6, 1.0)}[preset]
    assert low < gone < high
