"""What the box of a decision shows of two arms: their numbers, and how they differ."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from orchestrator.report.interval import Estimate, mean_interval, share_difference
from orchestrator.report.sections.norms import ratio_text
from orchestrator.report.sides import Compared
from orchestrator.report.study import Study
from orchestrator.report.verdict import points


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


def measures(study: Study, compared: Compared) -> tuple[Measure, ...]:
    """The rows of the box, on the cycles that both arms have."""
    pair = compared.pair
    lift, sides = pair.mean_lift(), (pair.theirs, pair.ours)
    served = pair.settled(pair.lift()).where(np.isfinite).dropna().index
    loss, other_loss = (side.loc[served, "served_logloss"].mean() for side in sides)
    theirs, ours = (pair.settled(side["train_seconds"]) for side in sides)
    cost = ratio_of_means(ours, theirs)
    times = ratio_text(cost) if math.isfinite(cost.mean) else "unknown"
    kept, useful = ([side[f"{name}_fraction"] for side in sides] for name in ("retained", "useful"))
    lost = [
        lost_compute(study.instances_of(side.run, side.arm)).reindex(frame["cycle"].astype(int))
        for side, frame in ((compared.theirs, pair.theirs), (compared.ours, pair.ours))
    ]
    return (
        Measure("served_logloss", "served log-loss (lower is better)", loss, other_loss, ".5f",
                loss_text(lift), lift),
        _share("retained", "retained instances (did not diverge)", kept),
        _share("useful", "useful instances (beat a constant CTR)", useful),
        _share("lost_compute", "compute lost (on instances not retained)", lost),
        Measure("training_seconds", "training time of a cycle, all instances, s", theirs.mean(),
                ours.mean(), "#.3g", times, cost),
    )  # fmt: skip


def ratio_of_means(ours: pd.Series, theirs: pd.Series) -> Estimate:
    """ln(mean of ours / mean of theirs), two series of one index, and its interval.

    The interval is that of the two relative deviations, cycle by cycle (the delta method), so that
    the ratio is exactly that of the two means that are shown beside it.
    """
    first, second = float(ours.mean()), float(theirs.mean())
    if not (first > 0 and second > 0):
        return Estimate(math.nan, math.nan, math.nan, 0)
    spread, ratio = mean_interval(ours / first - theirs / second), math.log(first / second)
    return Estimate(ratio, ratio + spread.low, ratio + spread.high, spread.count)


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
    text = side_text(lift.mean, "%")
    if not lift.known:
        return f"{text} ({cycles_text(lift.count)}: too few for an interval)"
    if lift.low >= 0 or lift.high <= 0:
        near, far = sorted((abs(lift.low), abs(lift.high)))
        return f"{text} ({near:.2f} to {far:.2f})"
    return f"{text} ({side_text(lift.low)} to {side_text(lift.high)})"


def side_text(lift: float, unit: str = "") -> str:
    """A log-loss compared with another: "0.31% lower"."""
    return f"{abs(lift):.2f}{unit} {'lower' if lift >= 0 else 'higher'}"


def cycles_text(count: int) -> str:
    """A number of cycles: "1 cycle", "96 cycles"."""
    return f"{count:,} cycle{'s' * (count != 1)}"


def _share(key: str, name: str, sides: Sequence[pd.Series]) -> Measure:
    theirs, ours = sides
    found = share_difference(ours, theirs)
    return Measure(key, name, theirs.mean(), ours.mean(), ".1%", points(found), found)
