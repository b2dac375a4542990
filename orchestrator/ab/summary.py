"""The results of trials of one design: lifts by day, by trial and overall, and the verdict."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.ab.bayes import Lifts, credible, generator, lifts, observed
from orchestrator.ab.counts import Counts, Day, Design, Trial, total
from orchestrator.ab.paired import paired_lifts
from orchestrator.report.interval import Estimate, interval_over_runs
from orchestrator.report.verdict import lift_text

PAPER = {"CTR": 0.93, "CPM": 0.67}
"""The paper's lifts, in percent."""
METRICS = tuple(PAPER)


@dataclass(frozen=True, slots=True)
class Lift:
    """The lifts of CTR and CPM in percent, as observed and with their 95% intervals.

    The intervals are credible ones in a split, paired ones for twins.
    """

    name: str
    control: Counts
    treatment: Counts
    observed: tuple[float, float]
    interval: tuple[Estimate, Estimate]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The analysis of several trials of the same experiment."""

    design: Design
    arms: tuple[str, str]
    days: tuple[Lift, ...]
    """Each day, all trials pooled, as in the paper's table; days without clicks are left out."""
    trials: tuple[Lift, ...]
    whole: Lift
    draws: Lifts | None
    """The draws behind `whole`, for figures; twins have none."""
    between: tuple[Estimate, Estimate]
    """The mean lift over trials with Student's interval; no bounds with fewer than three trials."""
    lost: tuple[tuple[float, float], ...] = ()
    """The shares of diverged instances of both arms, for each trial; empty if not known."""

    @property
    def interval_name(self) -> str:
        """What kind of intervals the lifts have."""
        return "credible" if self.design == "split" else "paired"

    @property
    def deciding(self) -> tuple[Estimate, Estimate]:
        """The intervals that decide the verdict.

        With three or more trials, the intervals between trials: they also allow for what the
        Bayesian model ignores (the same users come back, worlds differ).
        """
        return self.between if self.between[0].known else self.whole.interval

    @property
    def basis(self) -> str:
        """What kind of intervals the deciding ones are."""
        if self.between[0].known:
            return f"Student's 95% interval over {len(self.trials)} trials"
        return f"95% {self.interval_name} interval"


def summarise(trials: Sequence[Trial], lost: Sequence[tuple[float, float]] = ()) -> Summary:
    """Analyse trials of the same two arms in the same design."""
    first = trials[0]
    by_day: dict[int, list[Day]] = {}
    for day in (day for trial in trials for day in trial.days):
        by_day.setdefault(day.day, []).append(day)
    pooled = [_pooled(days) for _, days in sorted(by_day.items())]
    lift = _split_lift if first.design == "split" else _twins_lift
    each = [lift(trial.name, trial.days)[0] for trial in trials]
    whole, draws = lift("all", pooled)
    ctr, cpm = (interval_over_runs([one.observed[i] for one in each]) for i in range(2))
    return Summary(
        design=first.design,
        arms=(first.control, first.treatment),
        days=tuple(
            lift(str(day.day), [day])[0]
            for day in pooled
            if day.control.clicks and day.treatment.clicks
        ),
        trials=tuple(each),
        whole=whole,
        draws=draws,
        between=(ctr, cpm),
        lost=tuple(lost),
    )


def _pooled(days: Sequence[Day]) -> Day:
    """The same day of several trials as one; trials of twins are summed cycle by cycle."""
    cycles = zip(*(day.cycles for day in days), strict=True)
    return Day(
        days[0].day,
        total(day.control for day in days),
        total(day.treatment for day in days),
        tuple((total(c for c, _ in same), total(t for _, t in same)) for same in cycles),
    )


def verdict_text(summary: Summary, metric: str) -> str:
    """The outcome of one metric in a sentence."""
    index = METRICS.index(metric)
    found, paper = summary.deciding[index], PAPER[metric]
    if not found.known:
        return f"{metric} {lift_text(found)}."
    where = f"{found.mean:+.2f}% ({found.low:+.2f} to {found.high:+.2f}, {summary.basis})"
    if found.low > 0:
        outcome = "there is a lift"
    elif found.high < 0:
        outcome = "the treatment is worse"
    else:
        outcome = "no significant lift"
    inside = found.low <= paper <= found.high
    return (
        f"{metric} {where}: {outcome}; the paper's {paper:+.2f}% lies "
        f"{'inside' if inside else 'outside'} the interval."
    )


def plain_verdict(summary: Summary) -> str:
    """Whether these trials show the paper's lifts, and how far single trials can be trusted."""
    shown = [m for m, found in zip(METRICS, summary.deciding, strict=True) if found.low > 0]
    if len(shown) == len(METRICS):
        outcome = "both of the paper's lifts appear here."
    elif shown:
        outcome = f"of the paper's two lifts, only the {shown[0]} lift appears here."
    else:
        outcome = "neither of the paper's two lifts appears here."
    if not summary.between[0].known:
        return outcome
    found = [overdispersion(summary, metric) for metric in METRICS]
    if not np.isfinite(found).all():
        return outcome
    times = " and ".join(f"{x:.1f} ({m})" for x, m in zip(found, METRICS, strict=True))
    return (
        f"{outcome} Trials vary {times} times as much as their {summary.interval_name} intervals "
        "predict."
    )


def overdispersion(summary: Summary, metric: str) -> float:
    """The spread of a lift between trials, as a multiple of what their own intervals expect.

    NaN where these do not exist or have no width, as in an A/A test of twins.
    """
    index = METRICS.index(metric)
    expected = np.mean(
        [(c.high - c.low) / (2 * 1.96) for c in (t.interval[index] for t in summary.trials)]
    )
    if not expected > 0:
        return math.nan
    return float(np.std([t.observed[index] for t in summary.trials], ddof=1) / expected)


def _split_lift(name: str, days: Sequence[Day]) -> tuple[Lift, Lifts | None]:
    control, treatment = total(d.control for d in days), total(d.treatment for d in days)
    draws = lifts(control, treatment, generator())
    plain = observed(control, treatment)
    return Lift(name, control, treatment, plain, (credible(draws.ctr), credible(draws.cpm))), draws


def _twins_lift(name: str, days: Sequence[Day]) -> tuple[Lift, Lifts | None]:
    control, treatment = total(d.control for d in days), total(d.treatment for d in days)
    found = paired_lifts([pair for day in days for pair in day.cycles])
    return Lift(name, control, treatment, observed(control, treatment), found), None
