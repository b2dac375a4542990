"""Whether a run agrees with a claim: computed from numbers and thresholds, never written by hand.

A claim is split into statements, each about one number. A statement holds, fails, or is open if the
number's interval contains the threshold. A claim agrees if all its statements hold, and is not seen
here if any of them fails.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orchestrator.report.interval import Estimate

_FEW = re.compile(r" \((\d+) cycles: too few for an interval\)")


class Verdict(StrEnum):
    """What the data say about a claim."""

    AGREES = "agrees"
    DISAGREES = "not seen here"
    OPEN = "too little data"
    MIXED = "mixed"
    """Of several findings only: they differ."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A part of a claim, about one number."""

    text: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run shows, in a sentence; `verdict` is None if the paper claims nothing about it."""

    text: str
    verdict: Verdict | None
    run: str = ""
    statements: tuple[Statement, ...] = ()
    """The parts of the claim; empty if it has only one part."""


def without_verdict(finding: Finding) -> Finding:
    """The finding without its verdict, for a comparison that the paper does not make."""
    return replace(finding, verdict=None, statements=())


def few_once(text: str) -> str:
    """A sentence that says of several numbers that they have no interval says it once, at its end.

    "1% (3 cycles: too few for an interval), 2% (3 cycles: …)." -> "1%, 2%. 3 cycles are too few …".
    """
    counts = _FEW.findall(text)
    if len(counts) < 2:
        return text
    which = " and ".join(dict.fromkeys(counts))
    return f"{_FEW.sub('', text)} {which} cycles are too few for an interval."


def judged(text: str, run: str, *statements: Statement) -> Finding:
    """A finding whose verdict follows from its statements."""
    verdict = all_of(statement.verdict for statement in statements)
    return Finding(text, verdict, run, statements if len(statements) > 1 else ())


def above(found: Estimate, threshold: float = 0.0) -> Verdict:
    """Whether the mean and its entire interval lie above the threshold."""
    if not found.known:
        return Verdict.OPEN
    if found.low > threshold:
        return Verdict.AGREES
    # A constant series may lie exactly on the threshold, which is not above it.
    return Verdict.DISAGREES if found.high <= threshold else Verdict.OPEN


def below(found: Estimate, threshold: float = 0.0) -> Verdict:
    """Whether the mean and its entire interval lie below the threshold."""
    return above(found.scaled(-1.0), -threshold)


def holds(fact: bool | None) -> Verdict:
    """The verdict on a yes-or-no fact; None: not known."""
    return Verdict.OPEN if fact is None else Verdict.AGREES if fact else Verdict.DISAGREES


def opposite(verdict: Verdict) -> Verdict:
    """The verdict on the opposite claim."""
    swapped = {Verdict.AGREES: Verdict.DISAGREES, Verdict.DISAGREES: Verdict.AGREES}
    return swapped.get(verdict, verdict)


def all_of(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim from those on its statements: one failure decides, then one open."""
    given = set(verdicts)
    for deciding in (Verdict.DISAGREES, Verdict.OPEN):
        if deciding in given:
            return deciding
    return Verdict.AGREES if given else Verdict.OPEN


def over_runs(findings: Sequence[Finding]) -> tuple[Verdict | None, str]:
    """The verdict that all findings share, else mixed; and the count of each verdict as text."""
    count = Counter(finding.verdict for finding in findings if finding.verdict is not None)
    if not count:
        return None, ""
    if len(count) == 1:
        [(verdict, runs)] = count.items()
        return verdict, "" if runs == 1 else f"in all {runs} findings"
    counts = ", ".join(f"{verdict} in {n}" for verdict, n in count.most_common())
    return Verdict.MIXED, f"({counts} of {count.total()})"


def percent(found: Estimate, digits: int = 1) -> str:
    """A share as "93.4% (92.0 to 94.8)"."""
    return _with_interval(found.scaled(100), digits, "%", sign="")


def points(found: Estimate, digits: int = 1) -> str:
    """A difference of shares as "+4.2 points (+3.0 to +5.4)"."""
    return _with_interval(found.scaled(100), digits, " points", sign="+")


def lift_text(found: Estimate, digits: int = 2) -> str:
    """A lift, already in percent, as "+0.31% (+0.12 to +0.50)"."""
    return _with_interval(found, digits, "%", sign="+")


def _with_interval(found: Estimate, digits: int, unit: str, sign: str) -> str:
    if not math.isfinite(found.mean):
        return "unknown"
    form = f"{sign}z.{digits}f"  # z: no -0.0
    text = f"{found.mean:{form}}{unit}"
    if not found.known:
        return f"{text} ({found.count} cycles: too few for an interval)"
    return f"{text} ({found.low:{form}} to {found.high:{form}})"
