"""Runs in Python: tables, figures and advice. `from orchestrator.notebook import open_run`."""

from orchestrator.notebook.runs import OpenRun as OpenRun
from orchestrator.notebook.runs import open_run as open_run
from orchestrator.notebook.shown import AdviceBox as AdviceBox
from orchestrator.notebook.shown import ReportFigure as ReportFigure
from orchestrator.notebook.shown import ReportFigures as ReportFigures
from orchestrator.notebook.shown import ReportPage as ReportPage
