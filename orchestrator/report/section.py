"""A section of the report: a claim, what the runs show of it, charts and tables."""

from dataclasses import dataclass
from typing import Any

from orchestrator.charts.chart import Chart
from orchestrator.report.verdict import Finding


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's entry: what a person reads, and what it is sorted by (None: the text)."""

    text: str
    order: float | None = None
    tone: int | None = None
    """An arm's number, where the entry is its name."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the report. Without findings there is nothing in the paper to agree with."""

    key: str
    title: str
    claim: str
    """What the paper claims, in one sentence."""
    findings: tuple[Finding, ...]
    charts: tuple[Chart, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    note: str = ""
    """How the numbers were had, and what was decided by whom."""
    compares_main_arms: bool = False
    """Its findings are on baseline and challenger: no verdict where these are not the paper's."""


def number(value: Any, form: str = ".4g", unit: str = "") -> Cell:
    """A number as an entry; a dash where there is none."""
    given = float("nan") if value is None else float(value)
    if given != given:
        return Cell("-", float("-inf"))
    return Cell(f"{given:{form}}{unit}", given)
