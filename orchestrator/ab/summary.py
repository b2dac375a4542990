"""The results of trials: lifts by day, by trial and overall, and the verdict on them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.ab.bayes import Lifts, credible, generator, lifts, observed
from orchestrator.ab.counts import Counts, Trial, total
from orchestrator.report.interval import Estimate, interval_over_runs

PAPER = {"CTR": 0.93, "CPM": 0.67}
"""The paper's lifts, in percent."""
METRICS = tuple(PAPER)


@dataclass(frozen=True, slots=True)
class Lift:
    """The lifts of CTR and CPM in percent, as observed and with their 95% credible intervals."""

    name: str
    control: Counts
    treatment: Counts
    observed: tuple[float, float]
    credible: tuple[Estimate, Estimate]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The analysis of several trials of the same experiment."""

    arms: tuple[str, str]
    days: tuple[Lift, ...]
    """Each day, all trials pooled, as in the paper's table; days without clicks are left out."""
    trials: tuple[Lift, ...]
    whole: Lift
    draws: Lifts
    """The draws behind `whole`, for figures."""
    between: tuple[Estimate, Estimate]
    """The mean lift over trials with Student's interval; no bounds with fewer than three trials."""

    @property
    def deciding(self) -> tuple[Estimate, Estimate]:
        """The intervals that decide the verdict.

        With three or more trials, the intervals between trials: they also allow for what the
        Bayesian model ignores (the same users come back, worlds differ).
        """
        return self.between if self.between[0].known else self.whole.credible

    @property
    def basis(self) -> str:
        """What kind of intervals the deciding ones are."""
        if self.between[0].known:
            return f"Student's 95% interval over {len(self.trials)} trials"
        return "95% credible interval"


def summarise(trials: Sequence[Trial]) -> Summary:
    """Analyse trials of the same two arms."""
    first = trials[0]
    by_day: dict[int, list[tuple[Counts, Counts]]] = {}
    for trial in trials:
        for day in trial.days:
            by_day.setdefault(day.day, []).append((day.control, day.treatment))
    each = [_lift(trial.name, *trial.totals)[0] for trial in trials]
    pairs = [trial.totals for trial in trials]
    whole, draws = _lift("all", total(p[0] for p in pairs), total(p[1] for p in pairs))
    ctr, cpm = (interval_over_runs([lift.observed[i] for lift in each]) for i in range(2))
    return Summary(
        arms=(first.control, first.treatment),
        days=tuple(
            _lift(str(day), *arms)[0]
            for day, arms in ((day, _pooled(both)) for day, both in sorted(by_day.items()))
            if all(arm.clicks for arm in arms)
        ),
        trials=tuple(each),
        whole=whole,
        draws=draws,
        between=(ctr, cpm),
    )


def _pooled(both: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """The counts of both arms over several trials."""
    return total(c for c, _ in both), total(t for _, t in both)


def verdict_text(summary: Summary, metric: str) -> str:
    """The outcome of one metric in a sentence."""
    index = METRICS.index(metric)
    found, paper = summary.deciding[index], PAPER[metric]
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
    times = " and ".join(f"{overdispersion(summary, m):.1f} ({m})" for m in METRICS)
    return f"{outcome} Trials vary {times} times as much as their credible intervals predict."


def overdispersion(summary: Summary, metric: str) -> float:
    """The spread of a lift between trials, as a multiple of what the Bayesian model expects."""
    index = METRICS.index(metric)
    expected = [(c.high - c.low) / (2 * 1.96) for c in (t.credible[index] for t in summary.trials)]
    return float(np.std([t.observed[index] for t in summary.trials], ddof=1) / np.mean(expected))


def _lift(name: str, control: Counts, treatment: Counts) -> tuple[Lift, Lifts]:
    draws = lifts(control, treatment, generator())
    plain = observed(control, treatment)
    return Lift(name, control, treatment, plain, (credible(draws.ctr), credible(draws.cpm))), draws
