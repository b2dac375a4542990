"""Ranking, the champion's test and replacement of lines, as pure functions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.config.ranges import Choice, Interval
from orchestrator.config.schema import LineagesSelect
from orchestrator.search.lineages import (
    MIN_CHUNKS,
    WINDOW,
    CycleScores,
    Judgement,
    Lineages,
    LineState,
    Replacement,
    first_lines,
    judge,
    line_draws,
    paired_gain,
    together,
)
from trainer.outcome import Outcome, Status
from trainer.setting import PARAMETERS, Setting

SPACE = {
    "eta0": Interval(low=0.03, high=30),
    "alpha": Interval(low=0.1, high=100),
    "beta": Interval(low=0.3, high=0.9),
    "lam": Choice(choice=(0.1,)),
}
OPTIONS = LineagesSelect(replace_every=(2, 3))
NEVER = LineagesSelect(replace_every=())
DRAWS = line_draws(np.random.default_rng(1), 8, len(PARAMETERS))
CONSTANT = 0.5


def lines(*scores: float, champion: int = 0, chunks: int = WINDOW) -> Lineages:
    """Lines that have served like this, without noise."""
    return Lineages(
        tuple(LineState(Setting(1.0, 1.0, 0.5, lam=0.1), s, (s,) * chunks) for s in scores),
        champion,
    )


def play(
    before: Lineages,
    served: Sequence[float],
    lost: Mapping[int, Status] | None = None,
    options: LineagesSelect = NEVER,
    cycle: int = 0,
) -> Judgement:
    outcomes = [
        Outcome(i, line.setting, (lost or {}).get(i, Status.RETAINED), 0.4 + i / 100, 9, 1.0)
        for i, line in enumerate(before.lines)
    ]
    scores = CycleScores(cycle, CONSTANT, outcomes[::-1], dict(enumerate(served)))
    return judge(options, SPACE, before, scores, DRAWS)


def test_a_late_line_is_not_the_first_champion() -> None:
    """It has no log-loss: NaN is neither above nor below any other."""
    before = replace(lines(0.0, 0.0, 0.0, 0.0), champion=None)
    status = (Status.FAILED, Status.LATE, Status.LATE, Status.RETAINED)
    outcomes = [
        Outcome(i, line.setting, status[i], 0.4 if i == 3 else math.nan, 9, 1.0)
        for i, line in enumerate(before.lines)
    ]
    found = judge(NEVER, SPACE, before, CycleScores(0, CONSTANT, outcomes, {}), DRAWS)
    assert found.state.champion == 3
    found = judge(NEVER, SPACE, before, CycleScores(0, CONSTANT, [*outcomes[:3], replace(
        outcomes[3], status=Status.DIVERGED)], {}), DRAWS)  # fmt: skip
    assert (found.state.champion, found.why) == (None, "no line has trained in time")


def test_lines_start_around_the_start_setting() -> None:
    found = first_lines(OPTIONS, SPACE, None, DRAWS)
    first, *others = [line.setting for line in found.lines]
    assert first == Setting(0.6, 1.0, 0.7, lam=0.1)
    assert len({line.eta0 for line in others}) == 7
    assert all(0.1 <= line.eta0 <= 3.6 and 0.7 / 1.3 <= line.beta <= 0.9 for line in others)
    around = first_lines(OPTIONS, SPACE, Setting(30.0, 5.0, 0.4), DRAWS)
    assert around.lines[0].setting == Setting(30.0, 5.0, 0.4, lam=0.1)
    assert all(5.0 <= line.setting.eta0 <= 30.0 for line in around.lines)


def test_a_score_is_discounted_with_the_half_life() -> None:
    state = lines(0.0, 0.0)
    for _ in range(8):
        state = play(state, [CONSTANT + 0.1, CONSTANT]).state
    assert state.lines[0].score == pytest.approx(0.05, abs=1e-6)
    assert state.lines[0].excess == (0.0,) * 8 + (0.1,) * 8
    wild = play(lines(0.0, 0.0), [math.nan, 99.0]).state
    assert [line.excess[-1] for line in wild.lines] == [1.0, 1.0]


def test_a_challenger_takes_over_only_when_its_gain_is_real() -> None:
    better = play(lines(-0.10, -0.11), [0.40, 0.39])
    assert better.state.champion == 1
    assert "below that of line 0 by 0.0100" in better.why
    noisy = lines(-0.10, -0.11)
    noise = tuple(-0.10 + (0.1 if i % 2 else -0.1) for i in range(WINDOW))
    noisy = replace(noisy, lines=(noisy.lines[0], LineState(noisy.lines[1].setting, -0.11, noise)))
    stays = play(noisy, [0.40, 0.40])
    assert stays.state.champion == 0
    assert stays.why.startswith("line 1 is not better with certainty")
    young = play(lines(-0.10, -0.11, chunks=1), [0.40, 0.39])
    assert young.state.champion == 0
    assert (
        play(lines(-0.12, -0.11), [0.38, 0.39]).why
        == "it has the lowest discounted served log-loss"
    )


def test_pairs_are_of_the_same_chunks() -> None:
    setting = Setting(1.0, 1.0, 0.5)
    gain, error, chunks = paired_gain(
        LineState(setting, 0, (9.0, 2.0, 3.0)), LineState(setting, 0, (1.0, 1.0))
    )
    assert (gain, chunks) == (1.5, 2)
    assert error == pytest.approx(0.5)
    assert paired_gain(LineState(setting), LineState(setting)) == (0.0, math.inf, 0)


def test_the_worst_of_each_group_are_replaced_at_its_own_pace() -> None:
    state = lines(-0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2)
    served = [CONSTANT + line.excess[-1] for line in state.lines]
    found = [play(state, served, options=OPTIONS, cycle=cycle).replaced for cycle in range(6)]
    assert [{r.line for r in one} for one in found] == [set(), {6}, {7}, {6}, set(), {6, 7}]
    after = play(state, served, options=OPTIONS, cycle=5)
    for one in after.replaced:
        child, parent = after.state.lines[one.line], after.state.lines[one.parent]
        assert one.parent in (0, 1)
        assert (child.parent, child.born, child.score) == (one.parent, 5, parent.score)
        assert child.setting != parent.setting
        assert 1 / 3.01 <= child.setting.eta0 / parent.setting.eta0 <= 3.01


def test_a_line_that_is_not_worse_with_certainty_stays() -> None:
    noise = tuple(0.2 + (1.5 if i % 2 else -1.5) for i in range(WINDOW))
    state = lines(-0.3, -0.2, -0.1, 0.2)
    served = [CONSTANT + line.excess[-1] for line in state.lines]
    every = LineagesSelect(replace_every=(1,))
    (one,) = play(state, served, options=every).replaced
    assert one.line == 3
    assert one.reason.startswith("worse than line 0 by 0.5000")
    noisy = replace(state, lines=(*state.lines[:3], replace(state.lines[3], excess=noise)))
    assert play(noisy, served, options=every).replaced == ()
    young = lines(-0.3, -0.2, -0.1, 0.2, chunks=2 * MIN_CHUNKS - 2)
    assert play(young, served, options=every).replaced == ()


def test_a_copy_is_compared_on_its_own_chunks() -> None:
    """Before, a copy of the champion could take over after two chunks: all others were equal."""
    served = [CONSTANT + excess for excess in (-0.3, -0.2, -0.1, 0.2)]
    after = play(lines(-0.3, -0.2, -0.1, 0.2), served, options=LineagesSelect(replace_every=(1,)))
    child = after.state.lines[3]
    assert (child.score, child.excess) == (-0.3, ())
    state = after.state
    for cycle in range(1, MIN_CHUNKS + 1):
        better = play(state, [0.2, 0.3, 0.4, 0.1], cycle=cycle)
        assert better.state.champion == (3 if cycle == MIN_CHUNKS else 0)
        state = better.state


def test_a_young_line_does_not_keep_others_from_the_championship() -> None:
    state = lines(-0.10, -0.11, -0.2)
    state = replace(state, lines=(*state.lines[:2], replace(state.lines[2], excess=())))
    found = play(state, [0.40, 0.39, 0.3])
    assert found.state.champion == 1
    fresh = play(lines(-0.10, -0.11, chunks=0), [0.4, 0.3])
    assert fresh.why == "there are too few chunks to compare lines"


def test_the_champion_is_not_replaced_while_it_lives() -> None:
    noisy = tuple(0.2 + (0.9 if i % 2 else -0.9) for i in range(WINDOW))
    state = lines(0.3, 0.1, 0.2, 0.25)
    state = replace(state, lines=(replace(state.lines[0], excess=noisy), *state.lines[1:]))
    found = play(state, [0.8, 0.6, 0.7, 0.75], options=OPTIONS, cycle=1)
    assert (found.state.champion, found.replaced) == (0, ())


def test_a_line_that_is_lost_is_replaced_at_once() -> None:
    lost = {0: Status.DIVERGED, 2: Status.FAILED, 3: Status.LATE}
    found = play(lines(-0.3, -0.2, -0.1, 0.0), [0.2, 0.3, 0.4, 0.5], lost)
    assert found.state.champion == 1
    assert found.why == "line 0 was lost, this one has the lowest discounted served log-loss"
    assert {r.line: r.reason for r in found.replaced} == {0: "it diverged", 2: "it failed"}
    assert {r.parent for r in found.replaced} <= {1, 3}


def test_every_line_lost_leaves_all_models_and_halves_the_steps() -> None:
    lost = dict.fromkeys(range(3), Status.DIVERGED)
    found = play(lines(-0.3, -0.2, -0.1), [0.2, 0.3, 0.4], lost)
    assert (found.replaced, found.state.champion) == ((), 0)
    assert [line.setting.eta0 for line in found.state.lines] == [0.5] * 3


def test_the_first_champion_has_the_start_setting() -> None:
    fresh = first_lines(OPTIONS, SPACE, None, DRAWS)
    first = play(fresh, [])
    assert (first.state.champion, first.state.lines[0].score) == (0, None)
    assert play(fresh, [], {0: Status.DIVERGED}).state.champion == 1


def test_members_are_the_champion_and_the_best_until_lines_are_compared() -> None:
    assert together(1, (), lines(0.0, -0.1), ()) == ()
    assert together(2, (), replace(lines(0.0, -0.1), champion=None), ()) == ()
    new = Lineages(tuple(LineState(Setting(1.0, 1.0, 0.5)) for _ in range(4)), champion=2)
    assert together(3, (), new, ()) == (2, 0, 1)
    early = lines(0.1, -0.1, -0.3, -0.2, champion=0, chunks=MIN_CHUNKS - 1)
    assert together(3, (2, 0, 1), early, ()) == (2, 0, 3), "those that stay keep their seats"


def test_a_member_leaves_when_another_line_is_better_with_certainty() -> None:
    held = lines(-0.3, -0.1, -0.2, 0.0, champion=0)
    assert together(2, (1, 0), held, ()) == (2, 0)
    assert together(2, (2, 0), held, ()) == (2, 0)
    assert together(4, (3, 1, 2, 0), held, ()) == (3, 1, 2, 0)
    noisy = list(held.lines)
    noisy[2] = replace(noisy[2], excess=(-1.2, 0.8) * (WINDOW // 2))
    assert together(2, (1, 0), replace(held, lines=tuple(noisy)), ()) == (1, 0)


def test_at_most_one_member_leaves_for_others_in_a_cycle() -> None:
    held = lines(0.3, 0.2, -0.3, -0.2, -0.1, champion=2)
    first = together(3, (0, 1, 2), held, ())
    assert first == (3, 1, 2)
    assert together(3, first, held, ()) == (3, 4, 2)


def test_a_new_champion_takes_the_seat_of_the_worst() -> None:
    unproven = lines(-0.2, 0.0, -0.1, 0.3, champion=3, chunks=MIN_CHUNKS)
    assert together(2, (0, 1), unproven, ()) == (0, 3)


def test_lines_that_were_replaced_leave_at_once() -> None:
    held = lines(-0.4, -0.3, -0.2, -0.1, champion=0)
    lost = (Replacement(1, 0, "it diverged"),)
    assert together(2, (1, 0), held, lost) == (2, 0)
    both = (*lost, Replacement(2, 0, "it diverged"))
    assert together(3, (1, 2, 0), held, both) == (3, 1, 0), "a copy is better than no line"


def test_members_are_judged_with_the_lines() -> None:
    before = replace(lines(-0.3, -0.1, -0.2, 0.0), members=(1, 0))
    served = [CONSTANT + score for score in (-0.3, -0.1, -0.2, 0.0)]
    outcomes = [Outcome(i, line.setting, Status.RETAINED, 0.4, 9, 1.0)
                for i, line in enumerate(before.lines)]  # fmt: skip
    scores = CycleScores(0, CONSTANT, outcomes, dict(enumerate(served)))
    assert judge(NEVER, SPACE, before, scores, DRAWS, 2).state.members == (2, 0)
    assert judge(NEVER, SPACE, before, scores, DRAWS).state.members == ()
