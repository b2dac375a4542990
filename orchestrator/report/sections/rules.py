"""Every rule side by side."""

import pandas as pd

from orchestrator.report.interval import share_interval
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.retained import HEAVY, discards, gain
from orchestrator.report.study import Pair, Study
from orchestrator.report.verdict import (
    Finding,
    above,
    all_of,
    below,
    lift_text,
    opposite,
    percent,
    points,
)


def rules(study: Study) -> Section:
    """A table of all arms, and the paper's claim about the naive rule if a run has that rule."""
    naive = [
        study.pair(run, arm.name, study.baseline_of(run))
        for run in study.shown
        for arm in run.config.arms
        if arm.rule.name == "naive" and arm.name != study.baseline_of(run)
    ]
    claim = (
        "The naive rule, which multiplies or divides a vector's price by a constant, did not "
        "keep many more instances without a worse log-loss."
        if naive
        else "The paper makes no further claim about the rules of these arms."
    )
    return Section(
        key="rules",
        title="Every rule side by side",
        claim=claim,
        findings=(*map(_naive_finding, naive), *(_best_finding(study, run) for run in study.shown)),
        tables=(_table(study),),
        note="All numbers are over the cycles that all arms of a run share. Useful: retained, and "
        "better than a constant that knows the chunk's click rate. Lift is defined as above. Norms "
        "are medians over the cycles. Time is the median of the microseconds that a retained "
        "instance takes per event; it depends on the machine and its load. The decision's training "
        "time differs from it: that is the mean over cycles, without the acclimation, of the time "
        "of all instances, so aborted ones count until they stop.",
    )


def seconds_per_event(instances: pd.DataFrame) -> pd.Series:
    """Training time per event of the instances that trained on their entire chunk."""
    full = instances[(instances["status"] == "retained") & (instances["events_done"] > 0)]
    return full["seconds"] / full["events_done"].astype(float)


def _naive_finding(pair: Pair) -> Finding:
    """The claim fails if the naive rule retains more and its log-loss is not worse."""
    more, better = gain(pair), pair.mean_lift()
    works = all_of((above(more), opposite(below(better))))
    text = (
        f"{pair.arm} retains {points(more)} more than {pair.baseline}, with a lift of "
        f"{lift_text(better)}."
    )
    return Finding(text, opposite(works), pair.run)


def _best_finding(study: Study, run: Run) -> Finding:
    """Which arms are best; no verdict, since the paper has no such table."""
    shared = study.shared(run)
    means = pd.DataFrame(
        {
            arm: study.of(run, arm).loc[shared, ["retained_fraction", "served_logloss"]].mean()
            for arm, records in run.records.items()
            if records
        }
    ).T
    kept, loss = means["retained_fraction"].dropna(), means["served_logloss"].dropna()
    parts = []
    if len(kept):
        parts.append(_retain_most(kept))
    if len(loss):
        parts.append(f"{loss.idxmin()} has the lowest served log-loss ({loss.min():.5f})")
    best = " and ".join(parts) or "no arm has a result"
    text = f"Over {len(shared)} shared cycles of {len(means)} arms, {best}."
    return Finding(text, None, run.name)


def _retain_most(kept: pd.Series) -> str:
    """Who retains most; shares that read the same are a tie."""
    most = f"{kept.max():.1%}"
    first = [str(arm) for arm, share in kept.items() if f"{share:.1%}" == most]
    if len(first) == 1:
        return f"{first[0]} retains most ({most})"
    if len(first) == len(kept):
        return f"{'both' if len(first) == 2 else 'all'} retain {most}"
    return f"{', '.join(first[:-1])} and {first[-1]} retain most ({most})"


def _table(study: Study) -> ReportTable:
    rows = tuple(_row(study, run, arm) for run in study.shown for arm in run.records)
    columns = ("run", "arm", "rule", "retained", "useful", "cycles losing > 20%",
               "served log-loss", "lift over the baseline", "largest ‖v‖∞", "largest mean square",
               "µs per event", "times the baseline's")  # fmt: skip
    return ReportTable("All arms", columns, rows)


def _row(study: Study, run: Run, arm: str) -> tuple[Cell, ...]:
    base, shared = study.baseline_of(run), study.shared(run)
    frame = study.of(run, arm)
    frame = frame.loc[frame.index.intersection(shared)]
    kept, useful = (share_interval(frame[f"{name}_fraction"]) for name in ("retained", "useful"))
    heavy = discards(frame["retained_fraction"], HEAVY)
    pair = study.pair(run, arm, base)
    better = pair.mean_lift() if arm != base else None
    ours, theirs = (_median_pace(study, run, name) for name in (arm, base))
    rule = next(a.rule.name for a in run.config.arms if a.name == arm)
    return (
        Cell(run.name),
        Cell(arm, tone=study.arms.index(arm)),
        Cell(rule),
        Cell(percent(kept), kept.mean),
        Cell(percent(useful), useful.mean),
        Cell(percent(heavy), heavy.mean),
        number(frame["served_logloss"].mean(), ".5f"),
        Cell(lift_text(better), better.mean) if better else number(None),
        number(frame["max_inf"].median(), ".2f"),
        number(frame["max_msqr"].median(), ".3f"),
        number(1e6 * ours, ".2f"),
        number(ours / theirs if theirs else None, ".2f"),
    )


def _median_pace(study: Study, run: Run, arm: str) -> float:
    """Over the cycles that all arms share: the load of the machine may change over a run."""
    instances = study.instances_of(run, arm)
    shared = instances["cycle"].astype(int).isin(study.shared(run))
    return float(seconds_per_event(instances[shared]).median())
