"""What the results page needs of each experiment, as small files, so that it needs no runs.

`EXPERIMENT.json` holds the sections of its report that the page shows, with the charts of the first
seed; `arms.csv` has a row of numbers for every arm of every run that searches.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.charts.chart import (
    Axis,
    Bars,
    Cells,
    Chart,
    Dots,
    Level,
    Line,
    Panel,
    Span,
    numbers,
)
from orchestrator.report.aborts import load_aborts
from orchestrator.report.load import load_runs
from orchestrator.report.page import as_data
from orchestrator.report.regime.place import served_gains
from orchestrator.report.section import Cell, ReportTable, Section
from orchestrator.report.sections.retained import HEAVY, LIGHT, discards
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding, Statement, Verdict
from orchestrator.report.write import Report, compute, write
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output
from scripts.results.experiments import Experiment
from scripts.results.parts import ResultPart, parts_of

TABLES = Path(__file__).parent / "tables"
ARMS = "arms.csv"
MARKS: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Line, Dots, Cells, Bars, Level, Span)
}
OLD_WORDS = {"does not agree": Verdict.DISAGREES, "cannot be told": Verdict.OPEN}
"""Verdicts in tables of earlier versions."""
ARRAYS = ("x", "y", "bounds", "shade", "values")


@dataclass(frozen=True, slots=True)
class RunLength:
    """How far a run is; `planned` is None if its stream ends."""

    name: str
    cycles: int
    planned: int | None


@dataclass(frozen=True, slots=True)
class ExperimentTable:
    """The runs of an experiment, and the sections of its report."""

    runs: tuple[RunLength, ...]
    sections: tuple[Section, ...]


def write_tables(experiment: Experiment, folders: list[str], report: str, tables: Path) -> None:
    """Write the report of an experiment's runs, and its tables."""
    loaded, output = load_runs(folders), Output(report)
    if experiment.aborts:
        from orchestrator.report.retrain import retrain_aborts  # loads the kernels

        retrain_aborts(loaded.runs, experiment.aborts, [], output)
    made = compute(loaded, load_aborts(open_store(report), loaded.runs))
    write(made, output)
    tables.mkdir(parents=True, exist_ok=True)
    (tables / f"{experiment.name}.json").write_text(_encoded(experiment.name, made), "utf-8")
    rows = _arm_rows(experiment.name, made.study.searching)
    if rows.empty:  # of a stability map
        return
    if (tables / ARMS).exists():
        old = pd.read_csv(tables / ARMS)
        rows = pd.concat([old[old["experiment"] != experiment.name], rows])
    rows.to_csv(tables / ARMS, index=False, float_format="%.5g", lineterminator="\n")


def read_table(tables: Path, experiment: str) -> ExperimentTable | None:
    """What the page needs of an experiment; None if it was not run."""
    path = tables / f"{experiment}.json"
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    runs = tuple(RunLength(**run) for run in data["runs"])
    return ExperimentTable(runs, tuple(_section(one) for one in data["sections"]))


def read_arms(tables: Path) -> pd.DataFrame:
    """The numbers of every arm; empty if nothing was run."""
    path = tables / ARMS
    return pd.read_csv(path) if path.exists() else pd.DataFrame({"experiment": []})


def _encoded(experiment: str, report: Report) -> str:
    runs = [RunLength(run.name, run.cycles, run.config.cycles) for run in report.study.shown]
    parts = parts_of(experiment)
    sections = [
        _section_data(section, parts[section.key], report.study)
        for section in report.sections
        if section.key in parts
    ]
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, allow_nan=False) for one in sections)
    return f'{{"runs": {json.dumps([asdict(run) for run in runs])},\n"sections": [\n{lines}]}}\n'


def _section_data(section: Section, part: ResultPart, study: Study) -> dict[str, Any]:
    data = asdict(replace(section, charts=(), tables=()))
    tables = [
        {**asdict(table), "rows": [[cell.text for cell in row] for row in table.rows]}
        for table in section.tables
        if part.table
    ]
    shown = (chart for chart in section.charts if chart.key == part.chart)
    charts = [_chart_data(_first_seed(chart, study)) for chart in shown]
    return {**data, "tables": tables, "charts": charts}


def _chart_data(chart: Chart) -> dict[str, Any]:
    data = as_data(chart)
    for mark in (mark for panel in data["panels"] for mark in panel["marks"]):
        if mark["kind"] in ("dots", "cells"):
            mark["texts"] = []  # no picture shows them
    return data


def _first_seed(chart: Chart, study: Study) -> Chart:
    """The panels of the first run: the page has no room for more."""
    first = study.shown[0].name
    own = [panel for panel in chart.panels if panel.title.partition(":")[0] == first]
    return replace(chart, panels=tuple(own)) if own else chart


def _section(data: dict[str, Any]) -> Section:
    findings = tuple(_finding(one) for one in data["findings"])
    charts = tuple(_chart(one) for one in data["charts"])
    tables = tuple(
        ReportTable(
            table["title"],
            tuple(table["columns"]),
            tuple(tuple(map(Cell, row)) for row in table["rows"]),
            table["note"],
        )
        for table in data["tables"]
    )
    return Section(**{**data, "findings": findings, "charts": charts, "tables": tables})


def _finding(data: dict[str, Any]) -> Finding:
    statements = tuple(Statement(s["text"], _verdict(s["verdict"])) for s in data["statements"])
    verdict = None if data["verdict"] is None else _verdict(data["verdict"])
    return Finding(data["text"], verdict, data["run"], statements)


def _verdict(text: str) -> Verdict:
    return OLD_WORDS.get(text) or Verdict(text)


def _chart(data: dict[str, Any]) -> Chart:
    panels = tuple(
        Panel(**{**panel, "x": _axis(panel["x"]), "y": _axis(panel["y"]), "marks": marks})
        for panel in data["panels"]
        for marks in [tuple(map(_mark, panel["marks"]))]
    )
    return Chart(**{**data, "panels": panels})


def _axis(data: dict[str, Any]) -> Axis:
    return Axis(**{**data, "names": tuple(data["names"])})


def _mark(data: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {
        name: numbers(value) if name in ARRAYS else tuple(value) if name == "texts" else value
        for name, value in data.items()
        if name != "kind"
    }
    return MARKS[data["kind"]](**fields)


def _arm_rows(experiment: str, study: Study) -> pd.DataFrame:
    """Means over the cycles that all arms of a run share; lift and norms after the acclimation."""
    rows = []
    for run in study.shown:
        shared, base = study.shared(run), study.baseline_of(run)
        gains = served_gains(study, run)
        for arm in (arm for arm, records in run.records.items() if records):
            frame = study.of(run, arm).loc[shared]
            pair = study.pair(run, arm, base)
            rows.append(
                {
                    "experiment": experiment,
                    "run": run.name,
                    "arm": arm,
                    "cycles": len(shared),
                    "ctr": frame["clicks"].sum() / frame["events"].sum(),
                    "retained": frame["retained_fraction"].mean(),
                    "cycles_losing_over_20": discards(frame["retained_fraction"], HEAVY).mean,
                    "cycles_losing_over_5": discards(frame["retained_fraction"], LIGHT).mean,
                    "useful": frame["useful_fraction"].mean(),
                    "served_logloss": frame["served_logloss"].mean(),
                    "served_gain": gains.get(arm),
                    "lift_percent": pair.settled(pair.lift()).mean() if arm != base else None,
                    "largest_norm": frame["max_inf"].median(),
                    "largest_mean_square": frame["max_msqr"].median(),
                }
            )
    return pd.DataFrame(rows)
