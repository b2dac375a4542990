"""The report on a terminal: the decision, a table of the arms, and a line for each claim."""

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from orchestrator.charts.chart import Numbers, numbers
from orchestrator.report.advice import Advice
from orchestrator.report.decision import Decision
from orchestrator.report.head import faults, line_summaries, run_lines
from orchestrator.report.interval import Estimate, share_interval
from orchestrator.report.load import Run
from orchestrator.report.measures import cycles_text
from orchestrator.report.section import summary_lines
from orchestrator.report.sections.retained import HEAVY, LIGHT, discards
from orchestrator.report.stream import stream_lines
from orchestrator.report.study import Study
from orchestrator.report.verdict import Verdict, over_runs, percent
from orchestrator.report.write import Report

SPARKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
SPARK_LOW = 0.6
"""The lower end of the sparkline: smaller retained fractions look alike."""
COLOURS = {
    Verdict.AGREES: "green",
    Verdict.DISAGREES: "red",
    Verdict.OPEN: "yellow",
    Verdict.MIXED: "yellow",
    Advice.SWITCH: "green",
    Advice.STAY: "red",
    Advice.EARLY: "yellow",
}


def summary(report: Report) -> RenderableType:
    """The summary, for a terminal or as plain lines."""
    study, sections = report.study, report.sections
    parts: list[RenderableType] = [_box(one, len(report.decisions)) for one in report.decisions]
    parts += [Text(line) for line in run_lines(study)]
    parts += [Text(line) for line in (*line_summaries(study), *stream_lines(study))]
    parts += [Text(line, style="red") for line in faults(study, report.refused)]
    if study.searching.shown:
        parts.append(_arms(study.searching))
    parts += [Text(line) for line in summary_lines(sections)]
    for section in sections:
        verdict, detail = over_runs(section.findings)
        if verdict is not None:
            text = Text(f"{section.title}: ", style="bold")
            text.append(f"{verdict.value} {detail}".rstrip(), style=COLOURS[verdict])
            parts.append(text)
            several = len({finding.run for finding in section.findings}) > 1
            parts += [
                Text(f"  {finding.run}: {finding.text}" if several else f"  {finding.text}")
                for finding in section.findings
            ]
    return Group(*parts)


def _box(found: Decision, count: int) -> Panel:
    """A decision: the advice, the reason, the numbers of both arms, and the cycles behind it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in (found.baseline, found.challenger, f"{found.challenger} compared"):
        table.add_column(Text(name))
    for one in found.measures:
        table.add_row(*one.texts)
    head = Text(found.headline, style=f"bold {COLOURS[found.advice]}")
    title = Text(found.run) if count > 1 else None
    next_step = Text(found.next_step.replace("`", ""))
    parts = head, Text(found.reason), table, next_step, Text(found.basis)
    return Panel(Group(*parts), title=title, title_align="left", expand=False)


def brief(report: Report) -> list[str]:
    """The report in a few lines: the decisions, what each run retains, the paper's claims.

    In the paper's design what the runs retain is first, as on the page.
    """
    study, sections = report.study, report.sections
    several = len(study.shown) > 1
    lines = [
        f"{one.run + ': ' if several else ''}{one.headline}. {one.reason}"
        for one in report.decisions
    ]
    retained = [_retained_line(study, run) for run in study.searching.shown]
    lines = retained + lines if study.searching.is_paper_design else lines + retained
    by_verdict: dict[Verdict, list[str]] = {verdict: [] for verdict in Verdict}
    for section in sections:
        verdict, _ = over_runs(section.findings)
        if verdict is not None:
            by_verdict[verdict].append(section.title.lower())
    listed = [f"{verdict} ({'; '.join(names)})" for verdict, names in by_verdict.items() if names]
    if listed:
        lines.append(f"the paper's claims: {', '.join(listed)}")
    return lines or ["no cycle is committed yet"]


def _retained_line(study: Study, run: Run) -> str:
    """What the compared arms retain, each over all its cycles, as in the table of the arms."""
    arms = filter(None, (study.baseline_of(run), study.challenger_of(run)))
    found = [_retained_part(arm, study.of(run, arm)["retained_fraction"]) for arm in arms]
    name = f"{run.name}: " if len(study.shown) > 1 else ""
    return name + "; ".join(found)


def _retained_part(arm: str, fractions: pd.Series) -> str:
    known = fractions.dropna()
    if known.empty:
        return f"{arm} has no cycle yet"
    heavy = round(discards(known, HEAVY).mean * len(known))
    return (
        f"{arm} retains {known.mean():.1%} of its instances and fell below {1 - HEAVY:.0%} in "
        f"{heavy or 'none'} of its {cycles_text(len(known))}"
    )


def summary_data(report: Report) -> dict[str, Any]:
    """The summary for programs: decisions, arms, claims, findings and verdicts."""
    study, sections = report.study, report.sections
    arms = [
        {
            "run": run.name,
            "arm": arm,
            "cycles": len(series),
            "retained": _bounds(share_interval(series)),
            "discards_over_20": _bounds(discards(series, HEAVY)),
            "discards_over_5": _bounds(discards(series, LIGHT)),
        }
        for run in study.shown
        for arm in run.records
        for series in [study.of(run, arm)["retained_fraction"]]
    ]
    claims = [
        {
            "key": section.key,
            "claim": section.claim,
            "verdict": over_runs(section.findings)[0],
            "findings": [asdict(finding) for finding in section.findings],
        }
        for section in sections
    ]
    return {
        "decisions": [_plain(one) for one in report.decisions],
        "arms": arms,
        "sections": claims,
    }


def _plain(found: Decision) -> dict[str, Any]:
    """A decision for programs; the interval of the training time is that of a ratio."""
    measures = {}
    for one in found.measures:
        bounds = _bounds(one.found)
        if one.key == "training_seconds":
            bounds = {k: None if v is None else math.exp(v) for k, v in bounds.items()}
        values = {"baseline": _number(one.baseline), "challenger": _number(one.challenger)}
        measures[one.key] = {**values, "text": one.difference, **bounds}
    return {**asdict(found), "headline": found.headline, "measures": measures}


def _bounds(found: Estimate) -> dict[str, float | None]:
    values = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: _number(value) for name, value in values.items()}


def _number(value: float) -> float | None:
    return float(value) if value == value else None


def _arms(study: Study) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="retained", title_justify="left")
    for name in ("run", "arm", "cycles", "mean (95% interval)", ">20% lost", ">5% lost"):
        table.add_column(name, justify="left" if name in ("run", "arm") else "right", no_wrap=True)
    table.add_column(f"from first to last cycle, {SPARK_LOW:g} to 1", no_wrap=True)
    for run in study.shown:
        for arm in run.records:
            series = study.of(run, arm)["retained_fraction"]
            shares = (discards(series, limit).mean for limit in (HEAVY, LIGHT))
            table.add_row(
                run.name,
                arm,
                str(len(series)),
                percent(share_interval(series)),
                *(f"{share:.1%}" if share == share else "-" for share in shares),
                sparkline(numbers(series), SPARK_LOW, 1.0),
            )
    return table


def sparkline(values: Numbers, low: float, high: float, width: int = WIDTH) -> str:
    """A series as at most `width` characters, each the mean of a part; a space marks a gap."""
    if len(values) == 0:
        return ""
    marks = []
    for part in np.array_split(values, min(width, len(values))):
        known = part[np.isfinite(part)]
        if len(known) == 0:
            marks.append(" ")
            continue
        place = (float(known.mean()) - low) / (high - low) * len(SPARKS)
        marks.append(SPARKS[min(max(int(place), 0), len(SPARKS) - 1)])
    return "".join(marks)
