"""Whether to switch from the baseline to the challenger: the box that a report begins with.

The served log-loss decides. Where it is the same for practical purposes, useful instances and
training time decide, and without a reason to change the advice is to stay. Nothing here depends on
the rules of the arms.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd

from orchestrator.report.interval import (
    MAX_CYCLES,
    MIN_CYCLES,
    Estimate,
    cycles_for,
    mean_interval,
    share_difference,
)
from orchestrator.report.load import Run
from orchestrator.report.sections.norms import ratio_text
from orchestrator.report.study import DAY, TINY, Pair, Study
from orchestrator.report.verdict import points

SAME = 0.1
"""In percent: log-losses that differ by less are the same for practical purposes."""
DEARER = 1.1
"""Training times that differ by a smaller factor are the same for practical purposes."""
HOW = (
    "Switch: the entire 95% interval of the served log-loss is better; or it is not worse by "
    f"{SAME:g}%, and the arm keeps more useful instances for no more than {DEARER:g} times the "
    "training time, or trains that much faster. Stay: the log-loss is worse, or less than "
    f"{SAME:g}% better with nothing else to gain. Too early: the interval allows both. Cycles with "
    f"less than {TINY:.0%} of the usual events do not count for the log-loss."
)


class Advice(StrEnum):
    """What to do about the challenger."""

    SWITCH = "switch"
    STAY = "stay"
    EARLY = "too early"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the challenger changes: three numbers and their intervals."""

    lift: Estimate
    """How much lower the served log-loss is, in percent."""
    useful: Estimate
    """The difference of the useful fractions."""
    cost: Estimate
    """ln of the ratio of the training times."""

    @property
    def dearer(self) -> bool:
        """Whether training takes clearly longer."""
        return self.cost.low > math.log(DEARER)

    @property
    def cheaper(self) -> bool:
        """Whether training takes clearly less time, and useful instances are not fewer."""
        return self.cost.high < -math.log(DEARER) and not self.useful.high < 0

    @property
    def more_useful(self) -> bool:
        """Whether more instances are useful, for about the same training time."""
        return self.useful.low > 0 and not self.dearer


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the box: a number of both arms, and their difference in words and as an interval."""

    key: str
    name: str
    baseline: float
    challenger: float
    form: str
    difference: str
    found: Estimate

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Name, both numbers and the difference, as they are shown."""
        values = (self.baseline, self.challenger)
        first, second = (f"{value:{self.form}}" if value == value else "-" for value in values)
        return self.name, first, second, self.difference


@dataclass(frozen=True, slots=True)
class Decision:
    """The advice on two arms of a run, the reason, and the numbers behind it."""

    run: str
    baseline: str
    challenger: str
    advice: Advice
    reason: str
    cycles: int
    """Cycles that both arms share."""
    counted: int
    """Those of them that count for the log-loss."""
    more_cycles: int | None
    """About how many more are needed; None if it is not too early."""
    measures: tuple[Measure, ...]
    others: tuple[str, ...]
    """Further arms of the run."""

    @property
    def headline(self) -> str:
        """The advice in a few words."""
        if self.advice is Advice.SWITCH:
            return f"Switch to {self.challenger}"
        if self.advice is Advice.STAY:
            return f"Stay with {self.baseline}"
        return f"Too early to choose between {self.baseline} and {self.challenger}"

    @property
    def basis(self) -> str:
        """The number of cycles behind the advice, and how to ask about other arms."""
        few = f"{self.counted:,} of them count{'s' * (self.counted == 1)}"
        counted = few if self.counted < self.cycles else "all count"
        text = f"Based on {_cycles(self.cycles)} of both arms; {counted} for the log-loss."
        if not self.others:
            return text
        named = ", ".join(self.others[:6]) + (", …" if len(self.others) > 6 else "")
        return f"{text} For another arm ({named}) add --challenger ARM."


def decisions(study: Study) -> tuple[Decision, ...]:
    """A decision for every run with two arms that share a cycle."""
    found = (_decision(study, run) for run in study.searching.shown)
    return tuple(one for one in found if one is not None)


def advise(evidence: Evidence) -> Advice:
    """The advice that the evidence supports."""
    lift = evidence.lift
    if not lift.known:
        return Advice.EARLY
    if lift.low > 0:
        return Advice.SWITCH
    if lift.high < 0:
        return Advice.STAY
    if evidence.more_useful or evidence.cheaper:
        return Advice.SWITCH if lift.low > -SAME else Advice.EARLY
    return Advice.STAY if lift.high < SAME else Advice.EARLY


def served_cycles_needed(evidence: Evidence) -> int:
    """About how many cycles decide, if mean and variance of the lift stay as they are."""
    lift = evidence.lift
    if not lift.known:
        return MIN_CYCLES
    reason_to_change = evidence.more_useful or evidence.cheaper
    same = SAME + lift.mean if reason_to_change else SAME - lift.mean
    return cycles_for(lift, max(abs(lift.mean), same))


def lost_compute(instances: pd.DataFrame) -> pd.Series:
    """By cycle, the share of an arm's training time that went into instances it did not retain."""
    cycle = instances["cycle"].astype(int)
    spent = instances["seconds"].groupby(cycle).sum()
    lost = instances["seconds"].where(instances["status"] != "retained", 0.0).groupby(cycle).sum()
    share: pd.Series = lost / spent.where(spent > 0)
    return share


def loss_text(lift: Estimate) -> str:
    """A lift in words: "0.31% lower (0.12 to 0.50)", "0.10% lower (0.20 higher to 0.40 lower)"."""
    if not math.isfinite(lift.mean):
        return "unknown"
    text = _side(lift.mean, "%")
    if not lift.known:
        return f"{text} ({_cycles(lift.count)}: too few for an interval)"
    if lift.low >= 0 or lift.high <= 0:
        near, far = sorted((abs(lift.low), abs(lift.high)))
        return f"{text} ({near:.2f} to {far:.2f})"
    return f"{text} ({_side(lift.low)} to {_side(lift.high)})"


def _decision(study: Study, run: Run) -> Decision | None:
    pair = study.main_pair(run)
    if pair is None or pair.ours.empty:
        return None
    measures = _measures(study, run, pair)
    found = {one.key: one.found for one in measures}
    evidence = Evidence(found["served_logloss"], found["useful"], found["training_seconds"])
    advice = advise(evidence)
    more = _more_cycles(pair, evidence) if advice is Advice.EARLY else None
    return Decision(
        run.name,
        pair.baseline,
        pair.arm,
        advice,
        _reason(pair, advice, evidence, more),
        len(pair.ours),
        evidence.lift.count,
        more,
        measures,
        tuple(arm for arm in run.records if arm not in (pair.arm, pair.baseline)),
    )


def _more_cycles(pair: Pair, evidence: Evidence) -> int:
    """Cycles that are still to run, with those that will belong to a longer acclimation."""
    shared, needed = len(pair.ours), served_cycles_needed(evidence)
    uncounted = shared - pair.acclimation - evidence.lift.count
    total = needed + min(DAY, needed / 3) * pair.forked + uncounted
    return max(1, math.ceil(total - shared))


def _measures(study: Study, run: Run, pair: Pair) -> tuple[Measure, ...]:
    lift, cost = pair.mean_lift(), mean_interval(pair.log_ratio("train_seconds"))
    served = pair.settled(pair.lift()).where(np.isfinite).dropna().index
    sides = (pair.theirs, pair.ours)
    loss, other_loss = (side.loc[served, "served_logloss"].mean() for side in sides)
    seconds, other_seconds = (pair.settled(side["train_seconds"]).mean() for side in sides)
    times = ratio_text(cost) if math.isfinite(cost.mean) else "unknown"
    kept, useful = ([side[f"{name}_fraction"] for side in sides] for name in ("retained", "useful"))
    lost = [
        lost_compute(study.instances_of(run, arm)).reindex(pair.ours.index)
        for arm in (pair.baseline, pair.arm)
    ]
    return (
        Measure(
            "served_logloss", "served log-loss", loss, other_loss, ".5f", loss_text(lift), lift
        ),
        _share("retained", "retained instances", kept),
        _share("useful", "useful instances", useful),
        _share("lost_compute", "compute lost (instances not retained)", lost),
        Measure(
            "training_seconds", "cost: training time of a cycle, s", seconds, other_seconds, "#.3g",
            times, cost,
        ),
    )  # fmt: skip


def _share(key: str, name: str, sides: Sequence[pd.Series]) -> Measure:
    theirs, ours = sides
    found = share_difference(ours, theirs)
    return Measure(key, name, theirs.mean(), ours.mean(), ".1%", points(found), found)


def _reason(pair: Pair, advice: Advice, evidence: Evidence, more: int | None) -> str:
    lift, subject = evidence.lift, f"The served log-loss of {pair.arm}"
    if advice is Advice.EARLY:
        return f"{_why_early(pair, lift)} {_wait(lift, more or 1)}"
    if lift.low > 0 or lift.high < 0:
        text = f"{subject} is {loss_text(lift)} than that of {pair.baseline}."
        if advice is Advice.SWITCH and evidence.dearer:
            text += f" It takes {ratio_text(evidence.cost)} the training time."
        return text
    if advice is Advice.STAY:
        return (
            f"{subject} is at most {lift.high:.2f}% lower than that of {pair.baseline}, which is "
            "the same for practical purposes, and neither useful instances nor training time are "
            "a reason to change."
        )
    gain = (
        f"it keeps {points(evidence.useful)} more useful instances"
        if evidence.more_useful
        else f"it takes {ratio_text(evidence.cost)} the training time"
    )
    return f"{subject} is no worse than that of {pair.baseline}: {loss_text(lift)}; and {gain}."


def _why_early(pair: Pair, lift: Estimate) -> str:
    if not lift.known:
        return f"{_cycles(lift.count)} served by both arms: too few for an interval."
    return (
        f"The served log-loss of {pair.arm} is between {_side(lift.high, '%')} and "
        f"{_side(lift.low, '%')} than that of {pair.baseline}."
    )


def _wait(lift: Estimate, more: int) -> str:
    if not lift.known:
        return f"At least {more} more {'are' if more > 1 else 'is'} needed."
    about = f"about {float(f'{more:.2g}'):,.0f}" if more < MAX_CYCLES / 2 else "over half a million"
    return f"To decide at this variance takes {about} more cycle{'s' * (more > 1)}."


def _side(lift: float, unit: str = "") -> str:
    return f"{abs(lift):.2f}{unit} {'lower' if lift >= 0 else 'higher'}"


def _cycles(count: int) -> str:
    return f"{count:,} cycle{'s' * (count != 1)}"
