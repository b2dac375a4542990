import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.config.ranges import Choice, Interval, absolute, narrowed, value_at
from orchestrator.config.schema import RunConfig
from orchestrator.config.space import grid_size, space_of
from orchestrator.search.sampler import (
    MAX_CAUTION,
    SearchState,
    ask,
    cycle_rng,
    draw_quantiles,
    tell,
    with_leader_steps,
)
from support.configs import config
from support.records import SETTING, outcome
from support.strategies import examples
from trainer.setting import PARAMETERS, Setting

quick = settings(max_examples=examples(60))
positive = st.floats(min_value=1e-6, max_value=1e6)
intervals = st.builds(
    lambda a, b, log: Interval(low=min(a, b), high=max(a, b), log=log),
    positive,
    positive,
    st.booleans(),
)
choices = st.lists(positive, min_size=1, max_size=5, unique=True).map(
    lambda values: Choice(choice=tuple(values))
)
ranges = intervals | choices
incumbents = st.none() | st.builds(
    Setting, positive, positive, positive, st.none() | positive, st.none() | positive, positive
)
states = st.builds(SearchState, incumbents, st.integers(0, MAX_CAUTION))
samplers = st.sampled_from(["random", "adaptive", "{kind: adaptive, explore: 0.5}", "grid"])

TWO_ARMS = """
source: toy
search: {instances: 8}
arms:
  - {name: a, rule: l2}
  - {name: b, rule: entropic}
"""


def holds(span: Interval | Choice, value: float) -> bool:
    if isinstance(span, Choice):
        return value in span.choice
    return span.low <= value <= span.high


def asked(run: RunConfig, arm: int, state: SearchState, cycle: int) -> list[Setting]:
    draws = draw_quantiles(run, cycle, cycle_rng(run.seed, cycle))
    return ask(run.search, space_of(run, run.arms[arm], rho0=0.9), state, draws)


@given(span=ranges, quantile=st.floats(0, 1))
def test_a_value_is_in_its_range(span: Interval | Choice, quantile: float) -> None:
    assert holds(span, value_at(span, quantile))


@given(span=ranges, centre=positive, factor=st.floats(1, 100), quantile=st.floats(0, 1))
def test_a_narrowed_range_is_part_of_the_whole_and_near(
    span: Interval | Choice, centre: float, factor: float, quantile: float
) -> None:
    near = narrowed(span, centre, factor)
    value = value_at(near, quantile)
    assert holds(span, value)
    if isinstance(span, Interval) and span.low <= centre <= span.high:
        assert holds(near, centre)
        assert centre / factor * 0.999 <= value <= centre * factor * 1.001


@quick
@given(
    eta0=ranges,
    beta=ranges,
    state=states,
    sampler=samplers,
    seed=st.integers(0, 99),
    cycle=st.integers(0, 999),
)
def test_settings_keep_to_the_ranges_and_the_rule(
    eta0: Interval | Choice,
    beta: Interval | Choice,
    state: SearchState,
    sampler: str,
    seed: int,
    cycle: int,
) -> None:
    run = config(TWO_ARMS, f"search.sampler={sampler}", f"seed={seed}")
    own = run.search.ranges.model_copy(update={"eta0": eta0, "beta": beta})
    run = run.model_copy(update={"search": run.search.model_copy(update={"ranges": own})})
    for arm in (0, 1):
        space = space_of(run, run.arms[arm], rho0=0.9)
        got = asked(run, arm, state, cycle)
        assert len(got) == 8
        assert got == asked(run, arm, state, cycle)
        for setting in got:
            for name in PARAMETERS:
                value = getattr(setting, name)
                assert (value is None) == (name not in space)
                assert value is None or holds(space[name], value)


@quick
@given(state=states, cycle=st.integers(0, 999))
def test_adaptive_always_tries_the_incumbent_again(state: SearchState, cycle: int) -> None:
    run = config(TWO_ARMS)
    won = asked(run, 0, state, cycle)[3]
    told = tell(state, [replace(outcome(3), setting=won)], 3)
    assert asked(run, 0, told, cycle + 1)[0] == won


@quick
@given(seed=st.integers(0, 99), cycle=st.integers(0, 999), sampler=samplers)
def test_arms_share_their_draws(seed: int, cycle: int, sampler: str) -> None:
    run = config(TWO_ARMS, f"seed={seed}", f"search.sampler={sampler}")
    for state in (SearchState(), SearchState(SETTING)):
        pairs = zip(asked(run, 0, state, cycle), asked(run, 1, state, cycle), strict=True)
        for a, b in pairs:
            assert (a.eta0, a.alpha, a.beta) == (b.eta0, b.alpha, b.beta)


def test_another_seed_or_cycle_gives_other_draws() -> None:
    run = config(TWO_ARMS, "search.sampler=random")
    first = draw_quantiles(run, 0, cycle_rng(0, 0))
    assert not np.array_equal(first, draw_quantiles(run, 1, cycle_rng(0, 1)))
    assert not np.array_equal(first, draw_quantiles(run, 0, cycle_rng(1, 0)))


def test_adaptive_moves_near_and_explores_with_the_last() -> None:
    run = config(TWO_ARMS, "search.instances=400",
                 "search.sampler={kind: adaptive, explore: 0.25, spread: {eta0: 10}}")  # fmt: skip
    got = asked(run, 0, SearchState(replace(SETTING, eta0=0.3)), 5)
    ratios = [abs(math.log10(setting.eta0 / 0.3)) for setting in got]
    assert max(ratios[:300]) <= 1.0001
    assert max(ratios[:300]) > 0.9
    assert max(ratios[300:]) > 1.5


def test_grid_walks_every_point_and_begins_again() -> None:
    text = """
source: toy
search:
  instances: 4
  sampler: {kind: grid, points: 3}
  ranges: {eta0: {low: 0.1, high: 10}, alpha: 3, beta: {choice: [0.9, 0.5]}}
arms: [{name: a}, {name: b, rule: {name: projection, rho: {k: {choice: [1, 2]}}}}]
"""
    run = config(text)
    assert grid_size(run) == 12
    walked = [setting for cycle in range(3) for setting in asked(run, 1, SearchState(), cycle)]
    assert len(set(walked)) == 12
    assert {setting.eta0 for setting in walked} == {0.1, 1.0, 10.0}
    assert {setting.beta for setting in walked} == {0.5, 0.9}
    assert {setting.rho for setting in walked} == {0.9, 1.8}
    assert asked(run, 1, SearchState(), 3) == walked[:4]


def test_rho_in_multiples_follows_rho0() -> None:
    run = config(TWO_ARMS, "search.ranges.rho={k: {low: 0.1, high: 2}}")
    assert space_of(run, run.arms[1], rho0=0.5)["rho"] == Interval(low=0.05, high=1.0)
    assert absolute(run.search.ranges.eta0, 0.5) == run.search.ranges.eta0


def test_a_parameter_given_with_the_arm_is_fixed() -> None:
    run = config(TWO_ARMS, "arms.0.rule={name: l2, lam: 0.0017}", "arms.1.ranges.eta0=2")
    assert {setting.lam for setting in asked(run, 0, SearchState(), 0)} == {0.0017}
    assert {setting.eta0 for setting in asked(run, 1, SearchState(), 0)} == {2.0}


def test_when_all_diverge_the_next_draws_are_cautious_and_it_passes() -> None:
    run = config(TWO_ARMS)
    state = SearchState(SETTING)
    lost = [outcome(i, "diverged") for i in range(8)]
    bold = asked(run, 0, state, 1)
    for level in (1, 2):
        state = tell(state, lost, None)
        assert state == SearchState(SETTING, level)
        careful = asked(run, 0, state, 1)
        assert careful[0] == bold[0] == SETTING
        for calm, hot in zip(careful[1:], bold[1:], strict=True):
            assert calm.eta0 == pytest.approx(max(hot.eta0 * 0.5**level, 0.03), rel=1e-5)
            assert replace(calm, eta0=hot.eta0) == hot
    state = tell(state, [outcome(0), *lost[1:]], 0)
    assert state.caution == 1
    assert tell(state, [outcome(0)], 0).caution == 0


def test_caution_keeps_to_choices_and_to_its_limit() -> None:
    run = config(TWO_ARMS, "search.ranges.eta0={choice: [1, 4, 16]}", "search.sampler=random")
    got = {setting.eta0 for setting in asked(run, 0, SearchState(caution=1), 0)}
    assert got <= {1.0, 4.0}
    state = SearchState()
    for _ in range(50):
        state = tell(state, [outcome(0, "diverged")], None)
    assert state.caution == MAX_CAUTION


@pytest.mark.parametrize("status", ["failed", "late"])
def test_faults_and_lateness_teach_the_search_nothing(status: str) -> None:
    state = SearchState(SETTING, 2)
    assert tell(state, [outcome(0, status)], None) == state
    assert tell(state, [], None) == state


def test_an_arm_may_follow_anothers_champion() -> None:
    leader = SearchState(Setting(2.0, 4.0, 0.6, lam=0.1))
    own = SearchState(Setting(1.0, 1.0, 0.5, rho=0.2, dual_step=5.0), 3)
    assert with_leader_steps(own, leader) == SearchState(
        Setting(2.0, 4.0, 0.6, rho=0.2, dual_step=5.0), 3
    )
    assert with_leader_steps(own, SearchState()) == own
