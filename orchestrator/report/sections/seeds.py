"""Combines runs that differ only in their seeds."""

import json
from collections.abc import Sequence

from orchestrator.config.schema import RunConfig, identity
from orchestrator.report.interval import MIN_RUNS, interval_over_runs, share_difference
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.retained import gain
from orchestrator.report.study import Pair, Study
from orchestrator.report.verdict import Finding, Statement, above, judged, lift_text, points


def seeds(study: Study) -> Section | None:
    """Means over runs, one number per run; None if no experiment has three runs."""
    groups = [group for group in pairs_by_experiment(study) if len(group) >= MIN_RUNS]
    if not groups:
        return None
    return Section(
        key="seeds",
        title="Over several seeds",
        claim="The new algorithm retains more instances than production, and has the better "
        "log-loss.",
        findings=tuple(_finding(group) for group in groups),
        tables=(_table(groups),),
        note="Three or more runs whose configs differ only in their seeds. Each run counts as one "
        "number, its mean over the shared cycles (for the lift, after the acclimation). The 95% "
        "interval is Student's t over the runs, which allows for whatever a seed changes.",
        compares_main_arms=True,
    )


def pairs_by_experiment(study: Study) -> list[list[Pair]]:
    """The compared arms of each run, grouped by experiment."""
    groups: dict[str, list[Pair]] = {}
    for run in study.shown:
        pair = study.main_pair(run)
        if pair is not None and len(pair.ours):
            groups.setdefault(_experiment_key(run.config), []).append(pair)
    return list(groups.values())


def _experiment_key(config: RunConfig) -> str:
    """Everything in a config that decides the results, except its seeds."""
    parts = identity(config)
    parts.pop("seed", None)
    parts["source"] = {key: value for key, value in parts["source"].items() if key != "seed"}
    return json.dumps(parts, sort_keys=True)


def _finding(group: Sequence[Pair]) -> Finding:
    first = group[0]
    ours, theirs = (
        [getattr(pair, side)["retained_fraction"].mean() for pair in group]
        for side in ("ours", "theirs")
    )
    more = share_difference(ours, theirs, interval_over_runs)
    better = interval_over_runs([float(pair.settled(pair.lift()).mean()) for pair in group])
    text = (
        f"Over {len(group)} runs ({', '.join(pair.run for pair in group)}) {first.arm} retains "
        f"{points(more)} more than {first.baseline}, with a lift of {lift_text(better)}."
    )
    return judged(
        text,
        first.run,
        Statement(f"{first.arm} retains more than {first.baseline}", above(more)),
        Statement("the mean lift is above zero", above(better)),
    )


def _table(groups: Sequence[Sequence[Pair]]) -> ReportTable:
    rows = [
        (
            Cell(pair.run),
            Cell(f"{pair.arm} against {pair.baseline}"),
            number(len(pair.ours), ",.0f"),
            number(100 * pair.theirs["retained_fraction"].mean(), ".2f", "%"),
            number(100 * pair.ours["retained_fraction"].mean(), ".2f", "%"),
            number(100 * gain(pair).mean, "+.2f"),
            number(pair.settled(pair.lift()).mean(), "+.3f", "%"),
        )
        for group in groups
        for pair in group
    ]
    columns = ("run", "arms", "shared cycles", "baseline retains", "arm retains", "points more",
               "lift")  # fmt: skip
    return ReportTable("Each run as one number", columns, tuple(rows))
