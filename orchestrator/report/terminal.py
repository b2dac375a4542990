"""The report on a terminal: a table of the arms with sparklines, and a line for each claim."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.charts.chart import Numbers, numbers
from orchestrator.report.head import faults, run_line
from orchestrator.report.interval import Estimate, share_interval
from orchestrator.report.section import Section
from orchestrator.report.sections.retained import HEAVY, LIGHT, discards
from orchestrator.report.study import Study
from orchestrator.report.verdict import Verdict, over_runs, percent

SPARKS = "▁▂▃▄▅▆▇█"
WIDTH = 40
SPARK_LOW = 0.6
"""The lower end of the sparkline: smaller retained fractions look alike."""
COLOURS = {Verdict.AGREES: "green", Verdict.DISAGREES: "red", Verdict.OPEN: "yellow"}


def summary(study: Study, sections: Sequence[Section], refused: Sequence[str]) -> RenderableType:
    """The summary, for a terminal or as plain lines."""
    parts: list[RenderableType] = [Text(run_line(run)) for run in study.runs]
    parts += [Text(line, style="red") for line in faults(study, refused)]
    if study.searching.shown:
        parts.append(_arms(study.searching))
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


def summary_data(study: Study, sections: Sequence[Section]) -> dict[str, Any]:
    """The summary for programs: arms, claims, findings and verdicts."""
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
    return {"arms": arms, "sections": claims}


def _bounds(found: Estimate) -> dict[str, float | None]:
    values = {"mean": found.mean, "low": found.low, "high": found.high}
    return {name: value if value == value else None for name, value in values.items()}


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
