"""Runs opened in Python: what `holdfast report` computes, as objects."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import pandas as pd

from divergence.errors import InputError
from orchestrator.notebook.shown import AdviceBox, ReportFigure, ReportFigures, ReportPage
from orchestrator.report.aborts import load_aborts
from orchestrator.report.head import run_lines
from orchestrator.report.load import Run, load_runs
from orchestrator.report.sides import study_of
from orchestrator.report.study import Study
from orchestrator.report.write import Report, page_of, report_of
from orchestrator.storage.open import open_store


def open_run(
    *runs: str | Path, baseline: str | None = None, challenger: str | None = None
) -> "OpenRun":
    """Open one or several runs, each a folder or URI such as s3://bucket/run.

    `baseline` and `challenger` are the arms to compare, as in `holdfast report`: ARM, or RUN:ARM to
    compare arms of two runs. InputError, one
    line for each, where one of `runs` is not a run.
    """
    return OpenRun(runs, baseline, challenger)


class OpenRun:
    """One or several runs. Nothing changes before `refresh`, also while they go on.

    Tables are copies, and yours to change; `configs/REFERENCE.md` describes their columns.
    """

    def __init__(
        self, runs: Sequence[str | Path], baseline: str | None, challenger: str | None
    ) -> None:
        if not runs:
            raise InputError("open_run: name at least one run: a folder or a URI")
        self._uris = tuple(map(str, runs))
        self._arms = baseline, challenger
        self._study = self._read()

    def refresh(self) -> Self:
        """Read the cycles that were committed since."""
        self._study = self._read(self._study.runs)
        self.__dict__.pop("_report", None)
        return self

    @property
    def cycles(self) -> pd.DataFrame:
        """One row per run, arm and cycle."""
        return self._study.cycles.copy()

    @property
    def instances(self) -> pd.DataFrame:
        """One row per run, arm, cycle and instance."""
        return self._study.instances.copy()

    @property
    def lines(self) -> pd.DataFrame:
        """One row per run, arm, cycle and line; empty unless `search.select` is lineages."""
        return self._study.lines.copy()

    @property
    def figures(self) -> ReportFigures:
        """The report's figures by name, in its order."""
        charts = [chart for section in self._report.sections for chart in section.charts]
        return ReportFigures(map(ReportFigure, charts))

    def figure(self, name: str) -> ReportFigure:
        """A figure by its name, such as `retained`; InputError lists the names there are."""
        figures = self.figures
        if name not in figures:
            raise InputError(
                f"figure {name!r}: these runs have only {', '.join(figures) or 'none'}"
            )
        return figures[name]

    @property
    def advice(self) -> AdviceBox:
        """Whether to switch from the baseline to the challenger: for each run with two arms, and
        between runs on the same events."""
        return AdviceBox(self._report.decisions)

    @property
    def page(self) -> ReportPage:
        """The complete report, with figures that can be zoomed."""
        return ReportPage(page_of(self._report))

    @property
    def faults(self) -> tuple[str, ...]:
        """A line for each record that cannot be read or is missing."""
        return tuple(fault for run in self._study.runs for fault in run.faults)

    def __repr__(self) -> str:
        return "\n".join([*run_lines(self._study), *self.faults])

    @cached_property
    def _report(self) -> Report:
        runs = self._study.runs
        aborts = [abort for run in runs for abort in load_aborts(open_store(run.uri), [run])]
        return report_of(self._study, aborts)

    def _read(self, known: Sequence[Run] = ()) -> Study:
        loaded = load_runs(self._uris, known)
        if loaded.refused:
            raise InputError("\n".join(loaded.refused))
        return study_of(loaded.runs, *self._arms)
