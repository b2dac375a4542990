"""The advice on two arms, from three numbers and their intervals, and the reason in words.

The served log-loss decides. Where it is the same for practical purposes, useful instances and
training time decide, and without a reason to change the advice is to stay. Nothing here depends on
the rules of the arms.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.report.interval import MAX_CYCLES, MIN_CYCLES, Estimate, cycles_for
from orchestrator.report.measures import loss_text, side_text
from orchestrator.report.sections.norms import ratio_text
from orchestrator.report.study import TINY, Pair
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
    f"less than {TINY:.0%} of the usual events do not count for the log-loss. Its difference is "
    "the mean of the cycles' differences in percent, which is not exactly that of the two means. "
    "Of several challengers the box shows the best: one with the advice to switch, else one that "
    "it is too early for, and of these the one with the lowest log-loss; the more there are, the "
    "more often one looks better by chance. Between two runs training times do not decide, as "
    "the machines or their load may differ."
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


def reason(pair: Pair, advice: Advice, evidence: Evidence, more: int | None) -> str:
    """The reason for the advice, in a sentence or two."""
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
        return (
            f"An interval takes {MIN_CYCLES} cycles that count, served by both arms, and "
            f"{lift.count} count{'s' * (lift.count == 1)} so far."
        )
    return (
        f"The served log-loss of {pair.arm} is between {side_text(lift.high, '%')} and "
        f"{side_text(lift.low, '%')} than that of {pair.baseline}."
    )


def _wait(lift: Estimate, more: int) -> str:
    if not lift.known:
        unsettled = more - (MIN_CYCLES - lift.count)
        why = f", {unsettled} of them for a longer acclimation" if unsettled > 0 else ""
        return f"At least {more} more {'are' if more > 1 else 'is'} needed{why}."
    about = f"about {float(f'{more:.2g}'):,.0f}" if more < MAX_CYCLES / 2 else "over half a million"
    return f"To decide at this variance takes {about} more cycle{'s' * (more > 1)}."
