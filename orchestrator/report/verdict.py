"""Whether a run agrees with a claim: decided by numbers and thresholds, never written in advance.

A claim is taken apart into statements about one number each. A statement holds, does not hold, or
is open where the number's interval reaches over the threshold. A claim agrees when all its
statements hold, and does not when any fails.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.report.interval import Estimate


class Verdict(StrEnum):
    """What the data say about a claim."""

    AGREES = "agrees"
    DISAGREES = "does not agree"
    OPEN = "cannot be told"


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a claim, about one number."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run shows, in a sentence; `verdict` is None where the paper claims nothing."""

    text: str
    verdict: Verdict | None
    run: str = ""
    statements: tuple[Statement, ...] = ()
    """What the claim was taken apart into; none where it is a single one."""


def unjudged(finding: Finding) -> Finding:
    """The same where the paper says nothing of what was compared."""
    return replace(finding, verdict=None, statements=())


def judged(text: str, run: str, *statements: Statement) -> Finding:
    """A finding whose verdict follows from its statements."""
    verdict = all_of(statement.verdict for statement in statements)
    return Finding(text, verdict, run, statements if len(statements) > 1 else ())


def above(found: Estimate, threshold: float = 0.0) -> Verdict:
    """Whether the mean lies above the threshold, all of its interval with it."""
    if not found.known:
        return Verdict.OPEN
    if found.low > threshold:
        return Verdict.AGREES
    # A series that never varies sits exactly on the threshold at worst: that is not above it.
    return Verdict.DISAGREES if found.high <= threshold else Verdict.OPEN


def below(found: Estimate, threshold: float = 0.0) -> Verdict:
    """Whether the mean lies below the threshold, all of its interval with it."""
    return above(found.scaled(-1.0), -threshold)


def holds(fact: bool | None) -> Verdict:
    """The verdict of a plain fact; None where it is not known."""
    return Verdict.OPEN if fact is None else Verdict.AGREES if fact else Verdict.DISAGREES


def contrary(verdict: Verdict) -> Verdict:
    """The verdict on the opposite claim."""
    swapped = {Verdict.AGREES: Verdict.DISAGREES, Verdict.DISAGREES: Verdict.AGREES}
    return swapped.get(verdict, verdict)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """Of statements that make up one claim: a failed one decides, then an open one."""
    given = set(verdicts)
    for deciding in (Verdict.DISAGREES, Verdict.OPEN):
        if deciding in given:
            return deciding
    return Verdict.AGREES if given else Verdict.OPEN


def over_runs(findings: Sequence[Finding]) -> tuple[Verdict | None, str]:
    """The verdict that all findings share, else open; and how many say what."""
    count = Counter(finding.verdict for finding in findings if finding.verdict is not None)
    if not count:
        return None, ""
    if len(count) == 1:
        [(verdict, runs)] = count.items()
        return verdict, "" if runs == 1 else f"in all {runs} findings"
    told = ", ".join(f"{verdict} in {n}" for verdict, n in count.most_common())
    return Verdict.OPEN, f"({told} of {count.total()})"


def percent(found: Estimate, digits: int = 1) -> str:
    """A share as "93.4% (92.0 to 94.8)"."""
    return _spelled(found.scaled(100), digits, "%", sign="")


def points(found: Estimate, digits: int = 1) -> str:
    """A difference of shares as "+4.2 points (+3.0 to +5.4)"."""
    return _spelled(found.scaled(100), digits, " points", sign="+")


def lift_text(found: Estimate, digits: int = 2) -> str:
    """A lift, already in percent, as "+0.31% (+0.12 to +0.50)"."""
    return _spelled(found, digits, "%", sign="+")


def _spelled(found: Estimate, digits: int, unit: str, sign: str) -> str:
    if not math.isfinite(found.mean):
        return "unknown"
    text = f"{found.mean:{sign}.{digits}f}{unit}"
    if not found.known:
        return f"{text} ({found.count} cycles: too few for an interval)"
    return f"{text} ({found.low:{sign}.{digits}f} to {found.high:{sign}.{digits}f})"
