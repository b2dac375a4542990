"""What trials show, as numbers: lifts by day, by trial and over all, and the verdict on them."""

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
    """All that is told of some trials of the same experiment."""

    arms: tuple[str, str]
    days: tuple[Lift, ...]
    """Each day of all trials together, as in the paper's table; one without clicks is left out."""
    trials: tuple[Lift, ...]
    whole: Lift
    draws: Lifts
    """Of `whole`: for pictures."""
    between: tuple[Estimate, Estimate]
    """The mean lift over trials, and Student's interval by their spread; unknown below three."""

    @property
    def deciding(self) -> tuple[Estimate, Estimate]:
        """The intervals that a verdict rests on.

        Those between trials, where there are enough: they allow for whatever a trial changes, also
        for what the Bayesian model leaves out (the same users come back, worlds differ).
        """
        return self.between if self.between[0].known else self.whole.credible

    @property
    def basis(self) -> str:
        """What the deciding intervals are."""
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
            for day, arms in ((day, _together(both)) for day, both in sorted(by_day.items()))
            if all(arm.clicks for arm in arms)
        ),
        trials=tuple(each),
        whole=whole,
        draws=draws,
        between=(ctr, cpm),
    )


def _together(both: Sequence[tuple[Counts, Counts]]) -> tuple[Counts, Counts]:
    """Both arms over several trials."""
    return total(c for c, _ in both), total(t for _, t in both)


def verdict_text(summary: Summary, metric: str) -> str:
    """One metric's outcome in plain words."""
    index = METRICS.index(metric)
    found, paper = summary.deciding[index], PAPER[metric]
    where = f"{found.mean:+.2f}% ({found.low:+.2f} to {found.high:+.2f}, {summary.basis})"
    if found.low > 0:
        told = "a lift shows"
    elif found.high < 0:
        told = "the treatment is worse"
    else:
        told = "no lift can be told from chance"
    inside = found.low <= paper <= found.high
    return (
        f"{metric} {where}: {told}; the paper's {paper:+.2f}% lies "
        f"{'inside' if inside else 'outside'} the interval."
    )


def plain_verdict(summary: Summary) -> str:
    """Whether the paper's lifts show, and how far the intervals of single trials can be trusted."""
    shown = [m for m, found in zip(METRICS, summary.deciding, strict=True) if found.low > 0]
    if len(shown) == len(METRICS):
        told = "both of the paper's lifts show here."
    elif shown:
        told = f"of the paper's two lifts that of {shown[0]} shows here, the other does not."
    else:
        told = "neither of the paper's two lifts shows here."
    if not summary.between[0].known:
        return told
    times = " and ".join(f"{scatter(summary, m):.1f} ({m})" for m in METRICS)
    return f"{told} Trials differ by {times} times what their credible intervals would have them."


def scatter(summary: Summary, metric: str) -> float:
    """The spread of a lift between trials, as a multiple of what the Bayesian model expects."""
    index = METRICS.index(metric)
    expected = [(c.high - c.low) / (2 * 1.96) for c in (t.credible[index] for t in summary.trials)]
    return float(np.std([t.observed[index] for t in summary.trials], ddof=1) / np.mean(expected))


def _lift(name: str, control: Counts, treatment: Counts) -> tuple[Lift, Lifts]:
    draws = lifts(control, treatment, generator())
    plain = observed(control, treatment)
    return Lift(name, control, treatment, plain, (credible(draws.ctr), credible(draws.cpm))), draws
