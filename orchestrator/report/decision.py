"""The decisions that a report begins with: whether to switch from one arm to another.

In a run with several arms the best challenger is compared with the baseline, and the others are
named. Runs over the same events are compared, too.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from divergence.errors import InputError
from orchestrator.report.advice import Advice, Evidence, advise, reason, served_cycles_needed
from orchestrator.report.interval import Estimate
from orchestrator.report.load import Run
from orchestrator.report.measures import Measure, cycles_text, measures, side_text
from orchestrator.report.sides import (
    Compared,
    RunArm,
    across,
    alternatives,
    no_common_events,
    requested_across,
    within,
)
from orchestrator.report.study import DAY, Pair, Study
from orchestrator.sources.files.config import FilesConfig

MAX_OTHERS = 6
"""The most other arms that a box names."""
MANY = 30
"""If this many times the cycles so far are needed, waiting is no advice."""


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
    next_step: str
    """What to do now."""
    left_out: int = 0
    """Cycles of two runs that do not count: only one trained on their events, or one of them began
    with a model that had."""
    may_have_seen: str | None = None
    """The arm whose first model may have trained on these events, so that it looks too good."""
    others: tuple[str, ...] = ()
    """Further arms of the run."""
    other_advice: tuple[str, ...] = ()
    """The advice on each of them, with its log-loss compared with the baseline's."""

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
        text = f"Based on {cycles_text(self.cycles)} of both arms; {counted} for the log-loss."
        if self.left_out:
            text += f" {cycles_text(self.left_out)} with events of one run only are left out."
        if self.may_have_seen:
            text += (
                f" {self.may_have_seen} began with a champion that may have seen these events, and "
                "then looks too good: name start_from.cycle."
            )
        if not self.others:
            return text
        more = "; …" if len(self.others) > MAX_OTHERS else ""
        named = "; ".join(self.other_advice[:MAX_OTHERS]) + more
        return f"{text} Other arms against {self.baseline}: {named} (--challenger ARM shows one)."


def decisions(study: Study) -> tuple[Decision, ...]:
    """A decision for every run with two arms that share a cycle, and for runs on the same events.

    What was asked for is first: runs on the same events side by side, or the run that RUN:ARM
    names. Only one, where arms of two runs were asked about; InputError if their events differ.
    """
    asked = requested_across(study)
    if asked is not None:
        return (_asked(study, *asked),)
    runs = sorted(study.searching.shown, key=lambda run: not _is_named(study, run))
    found = [_of_run(study, run) for run in runs]
    if study.baseline is None and study.challenger is None:
        found = [*(_of_alternative(study, run) for run in alternatives(study)), *found]
    return tuple(one for one in found if one is not None)


def _is_named(study: Study, run: Run) -> bool:
    """Whether RUN:ARM asked about this run."""
    asked = (study.baseline, study.challenger)
    return any(name is not None and name.startswith(f"{run.name}:") for name in asked)


def _asked(study: Study, ours: RunArm | None, theirs: RunArm | None) -> Decision:
    """The decision on two arms of two runs; the best challenger of the other runs if it is open."""
    assert theirs is not None
    runs = [run for run in study.searching.shown if run is not theirs.run]
    sides = [ours] if ours else [RunArm(run, arm) for run in runs for arm in run.records]
    found = _among(study, [across(study, side, theirs) for side in sides])
    if found is None:
        asked = dict.fromkeys(side.run for side in sides)
        raise InputError("\n".join(no_common_events(run, theirs.run) for run in asked))
    return found


def _of_run(study: Study, run: Run) -> Decision | None:
    """The requested challenger, else the best one, against the baseline of a run."""
    base, requested = study.baseline_of(run), study.challenger_of(run)
    arms = [arm for arm in run.records if arm != base]
    found = [within(study, run, arm) for arm in arms]
    if study.challenger is None:
        return _among(study, found)
    return _among(study, found, requested)


def _of_alternative(study: Study, run: Run) -> Decision | None:
    """The best arm of a run against the best of the first run."""
    first = study.searching.shown[0]
    best, other = (_best_arm(study, one) for one in (run, first))
    return _among(study, [across(study, RunArm(run, best), RunArm(first, other))])


def _best_arm(study: Study, run: Run) -> str:
    """The challenger if the advice is to switch to it, else the baseline."""
    found = _of_run(study, run)
    switch = found is not None and found.advice is Advice.SWITCH
    return found.challenger if found and switch else study.baseline_of(run)


def _among(
    study: Study, compared: Iterable[Compared], requested: str | None = None
) -> Decision | None:
    """The decision on the requested or the best challenger, which names the others."""
    found = [_decision(study, one) for one in compared if len(one.pair.ours)]
    if not found:
        return None
    chosen = next((one for one in found if one.challenger == requested), None)
    best = chosen or max(found, key=_preference)
    rest = [one for one in found if one is not best]
    return replace(
        best,
        others=tuple(one.challenger for one in rest),
        other_advice=tuple(f"{one.challenger}: {one.advice}, {_short(one)}" for one in rest),
    )


def _preference(found: Decision) -> tuple[int, float]:
    lift = _lift(found).mean
    return (Advice.STAY, Advice.EARLY, Advice.SWITCH).index(found.advice), (
        lift if math.isfinite(lift) else -math.inf
    )


def _lift(found: Decision) -> Estimate:
    return next(one.found for one in found.measures if one.key == "served_logloss")


def _short(found: Decision) -> str:
    lift = _lift(found).mean
    return f"log-loss {side_text(lift, '%')}" if math.isfinite(lift) else "log-loss unknown"


def _decision(study: Study, compared: Compared) -> Decision:
    pair, shown = compared.pair, measures(study, compared)
    found = {one.key: one.found for one in shown}
    cost = found["training_seconds"]
    if compared.ours.run is not compared.theirs.run:
        cost = Estimate(math.nan, math.nan, math.nan, 0)
    evidence = Evidence(found["served_logloss"], found["useful"], cost)
    advice = advise(evidence)
    more = _more_cycles(pair, evidence) if advice is Advice.EARLY else None
    return Decision(
        pair.run,
        pair.baseline,
        pair.arm,
        advice,
        reason(pair, advice, evidence, more),
        len(pair.ours),
        evidence.lift.count,
        more,
        shown,
        _next_step(compared, advice, more),
        compared.left_out,
        compared.may_have_seen,
    )


def _next_step(compared: Compared, advice: Advice, more: int | None) -> str:
    ours, theirs, pair = compared.ours, compared.theirs, compared.pair
    if advice is Advice.SWITCH:
        others = len(ours.run.config.arms) > 1
        return (
            f"Next: `holdfast publish {ours.run.uri} PLACE --arm {ours.arm}` gives its champion "
            "to serving." + f" In the config, {ours.arm} can become the only arm." * others
        )
    if advice is Advice.STAY:
        together = ours.run is theirs.run
        less = f" Without {ours.arm}, a cycle has less to train." * together
        return f"Next: keep {pair.baseline}.{less}"
    if more is None or more > MANY * len(pair.ours):
        return f"Next: keep {pair.baseline} unless the other rows speak for {pair.arm}."
    runs = dict.fromkeys((theirs.run, ours.run))
    longer = " and ".join(f"{run.name} to {run.cycles + more:,} cycles" for run in runs)
    limited = [run for run in runs if (run.config.cycles or math.inf) < run.cycles + more]
    how = " and ".join(f"`--set cycles={run.cycles + more}`" for run in limited)
    command = f"the same command with {how}" if limited else ""
    if any(isinstance(run.config.source, FilesConfig) for run in runs):
        command = f"add files with later events, then {command or 'the same command'}"
    return f"Next: continue {longer}{f': {command}' if command else ''}."


def _more_cycles(pair: Pair, evidence: Evidence) -> int:
    """Cycles that are still to run, with those that will belong to a longer acclimation."""
    shared, needed = len(pair.ours), served_cycles_needed(evidence)
    uncounted = shared - pair.acclimation - evidence.lift.count
    total = needed + min(DAY, needed / 3) * pair.forked + uncounted
    return max(1, math.ceil(total - shared))
