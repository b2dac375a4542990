"""A section of the report: a claim, what the runs show of it, charts and tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from orchestrator.charts.chart import Chart
from orchestrator.offline.story import Story
from orchestrator.report.verdict import Finding


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell: the text that is shown, and the number to sort by (None: sort by the text)."""

    text: str
    order: float | None = None
    tone: int | None = None
    """The arm's number, if the cell holds an arm's name: it sets the colour."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of the report; `note` follows the title in its caption."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report."""

    key: str
    title: str
    claim: str
    """What the paper claims, in one sentence."""
    findings: tuple[Finding, ...]
    stories: tuple[Story, ...] = ()
    """Shown before the charts, as graphs that one can play."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    note: str = ""
    """How the numbers were computed, and which choices are ours."""
    in_summary: bool = False
    """Its findings are shown at the top of the page and on the terminal, though without verdict."""
    compares_main_arms: bool = False
    """Its findings compare baseline and challenger; no verdict if these are not the paper's."""


def number(value: Any, form: str = ".4g", unit: str = "") -> Cell:
    """A cell with a number, or a dash if there is none."""
    given = float("nan") if value is None else float(value)
    if given != given:
        return Cell("-", float("-inf"))
    return Cell(f"{given:{form}}{unit}", given)


def summary_lines(sections: Iterable[Section]) -> list[str]:
    """The findings that are shown beside the list of runs; they name their run where it matters."""
    return [
        f"{finding.run}: {finding.text}" if len(section.findings) > 1 else finding.text
        for section in sections
        if section.in_summary
        for finding in section.findings
    ]
