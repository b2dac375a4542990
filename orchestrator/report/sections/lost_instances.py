"""Why instances were lost, where divergence started, and how much time early stopping saved."""

import numpy as np
import pandas as pd

from orchestrator.charts.chart import Axis, Bars, Chart, Line, Panel, numbers
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.rules import seconds_per_event
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding

CAUSES = ("diverged", "failed", "late")
MAX_FEATURES = 10


def lost_instances(study: Study) -> Section:
    """Causes by arm, features that diverge first, depth in the chunk, and CPU time saved."""
    return Section(
        key="losses",
        title="Lost instances",
        claim="The paper gives no numbers here. It aborts an instance at the first vector with "
        "‖v‖∞ ≥ τ.",
        findings=tuple(_finding(study, run) for run in study.shown),
        charts=(_features(study), _depths(study)),
        tables=(_causes(study),),
        note="CPU saved: the events that aborted instances did not train on, times the median time "
        "per event of the retained instances of the same arm and cycle, as a share of the training "
        "time without aborts.",
    )


def saved_seconds(instances: pd.DataFrame) -> float:
    """The training time that aborts saved in an arm."""
    aborted = instances[instances["status"] == "diverged"]
    left = (aborted["events"] - aborted["events_done"]).astype(float)
    pace = seconds_per_event(instances)
    by_cycle = pace.groupby(instances.loc[pace.index, "cycle"]).median()
    overall = pace.median() if len(pace) else np.nan
    return float((left * aborted["cycle"].map(by_cycle).astype(float).fillna(overall)).sum())


def _finding(study: Study, run: Run) -> Finding:
    rows = pd.concat([study.instances_of(run, arm) for arm in run.records])
    count = rows["status"].value_counts()
    lost = rows[rows["status"] == "diverged"]
    causes = ", ".join(f"{count.get(cause, 0):,} {cause}" for cause in CAUSES)
    text = f"Of {len(rows):,} instances: {causes}."
    if len(lost):
        first = lost["diverged_feature"].value_counts()
        depth = (lost["diverged_event"].astype(float) / lost["events"].astype(float)).median()
        spent = float(rows["seconds"].sum())
        saved = sum(saved_seconds(study.instances_of(run, arm)) for arm in run.records)
        share = saved / (spent + saved) if spent + saved > 0 else 0.0
        text += (
            f" {first.index[0]} diverged first in {first.iloc[0] / len(lost):.0%} of the aborts. "
            f"Half of all aborts came within the first {depth:.0%} of the chunk. Early stopping "
            f"saved {share:.1%} of the training time."
        )
    return Finding(text, None, run.name)


def _causes(study: Study) -> ReportTable:
    rows = []
    for run in study.shown:
        for arm in run.records:
            mine = study.instances_of(run, arm)
            count = mine["status"].value_counts()
            spent, saved = float(mine["seconds"].sum()), saved_seconds(mine)
            depth = mine["diverged_event"].astype(float) / mine["events"].astype(float)
            rows.append(
                (
                    Cell(run.name),
                    Cell(arm, tone=study.arms.index(arm)),
                    number(len(mine), ",.0f"),
                    *(number(count.get(cause, 0), ",.0f") for cause in CAUSES),
                    number(100 * depth.median(), ".0f", "%"),
                    number(spent, ",.1f"),
                    number(saved, ",.1f"),
                    number(100 * saved / (spent + saved) if spent + saved else 0, ".1f", "%"),
                )
            )
    columns = ("run", "arm", "instances", *CAUSES, "median depth of an abort",
               "CPU spent, s", "CPU saved, s", "saved")  # fmt: skip
    return ReportTable("Causes of loss, and CPU time saved by early stopping", columns, tuple(rows))


def _features(study: Study) -> Chart:
    panels = [panel for run in study.shown if (panel := _feature_panel(study, run))]
    return Chart(
        "first-to-diverge",
        "Which features diverge first",
        "Aborted instances by the feature of the first vector that reached τ.",
        tuple(panels),
        wide=False,
    )


def _feature_panel(study: Study, run: Run) -> Panel | None:
    rows = pd.concat([study.instances_of(run, arm) for arm in run.records])
    lost = rows[rows["diverged_feature"].notna()]
    if lost.empty:
        return None
    names = lost["diverged_feature"].value_counts().index[:MAX_FEATURES].tolist()
    bars = []
    for arm in run.records:
        mine = lost[lost["arm"] == arm]["diverged_feature"].value_counts()
        values = numbers([mine.get(name, 0) for name in names])
        if values.any():
            texts = tuple(
                f"{arm}: {name} first in {n:,.0f} of {mine.sum():,} aborts"
                for name, n in zip(names, values, strict=True)
            )
            bars.append(Bars(arm, study.arms.index(arm), values, texts))
    most = max(float(bar.values.max()) for bar in bars)
    y = Axis("", -0.5, len(names) - 0.5, names=tuple(names))
    return Panel(study.panel_title(run), Axis("aborted instances", 0, most * 1.05), y, tuple(bars))


def _depths(study: Study) -> Chart:
    panels = [panel for run in study.shown if (panel := _depth_panel(study, run))]
    return Chart(
        "depth-of-aborts",
        "How far into the chunk instances diverge",
        "Share of an arm's aborts that happened before this part of the chunk.",
        tuple(panels),
        wide=False,
    )


def _depth_panel(study: Study, run: Run) -> Panel | None:
    lines = []
    for arm in run.records:
        mine = study.instances_of(run, arm)
        depth = (mine["diverged_event"].astype(float) / mine["events"].astype(float)).dropna()
        if len(depth):
            share = np.linspace(0, 1, min(len(depth), 200) + 1)
            part = 100 * np.quantile(depth, share)
            lines.append(Line(arm, study.arms.index(arm), numbers(part), numbers(share)))
    if not lines:
        return None
    x = Axis("part of the chunk, %", 0, 100)
    return Panel(
        study.panel_title(run), x, Axis("share of aborts", 0, 1.02, unit="%"), tuple(lines)
    )
