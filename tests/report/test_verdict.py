import math

import pytest

from orchestrator.report.interval import Estimate
from orchestrator.report.verdict import (
    Finding,
    Statement,
    Verdict,
    above,
    all_of,
    below,
    few_once,
    holds,
    judged,
    lift_text,
    opposite,
    over_runs,
    percent,
    points,
)

AGREES, DISAGREES, OPEN = Verdict.AGREES, Verdict.DISAGREES, Verdict.OPEN


@pytest.mark.parametrize(
    ("low", "high", "is_above", "is_below"),
    [
        (0.1, 0.3, AGREES, DISAGREES),
        (-0.3, -0.1, DISAGREES, AGREES),
        (-0.1, 0.1, OPEN, OPEN),
        (0.0, 0.0, DISAGREES, DISAGREES),
        (math.nan, math.nan, OPEN, OPEN),
    ],
)
def test_a_statement_needs_the_whole_interval(
    low: float, high: float, is_above: Verdict, is_below: Verdict
) -> None:
    found = Estimate((low + high) / 2, low, high, 100)
    assert above(found) is is_above
    assert below(found) is is_below
    moved = Estimate(found.mean + 5, low + 5, high + 5, 100)
    assert above(moved, 5.0) is is_above


def test_a_failed_statement_decides_then_an_open_one() -> None:
    assert all_of([AGREES, AGREES]) is AGREES
    assert all_of([AGREES, OPEN]) is OPEN
    assert all_of([AGREES, OPEN, DISAGREES]) is DISAGREES
    assert all_of([]) is OPEN
    assert (holds(True), holds(False), holds(None)) == (AGREES, DISAGREES, OPEN)
    assert (opposite(AGREES), opposite(DISAGREES), opposite(OPEN)) == (DISAGREES, AGREES, OPEN)


def test_a_finding_follows_from_its_statements() -> None:
    found = judged("so", "run", Statement("a", AGREES), Statement("b", DISAGREES))
    assert found.verdict is DISAGREES
    assert len(found.statements) == 2
    assert judged("so", "run", Statement("a", AGREES)).statements == ()


def test_several_runs_agree_only_where_all_do() -> None:
    yes, no, none = (Finding("", v) for v in (AGREES, DISAGREES, None))
    assert over_runs([yes]) == (AGREES, "")
    assert over_runs([yes, none, yes]) == (AGREES, "in all 2 findings")
    assert over_runs([yes, no, yes]) == (Verdict.MIXED, "(agrees in 2, not seen here in 1 of 3)")
    assert over_runs([none]) == (None, "")


def test_numbers_are_spelled_with_their_intervals() -> None:
    found = Estimate(0.0423, 0.03, 0.0546, 100)
    assert percent(found) == "4.2% (3.0 to 5.5)"
    assert points(found) == "+4.2 points (+3.0 to +5.5)"
    assert lift_text(found) == "+0.04% (+0.03 to +0.05)"
    short = Estimate(0.5, math.nan, math.nan, 3)
    assert percent(short) == "50.0% (3 cycles: too few for an interval)"
    twice = f"{percent(short)} against {percent(short)}."
    assert few_once(twice) == "50.0% against 50.0%. 3 cycles are too few for an interval."
    assert few_once(percent(short)) == percent(short)
    assert percent(Estimate(math.nan, math.nan, math.nan, 0)) == "unknown"
