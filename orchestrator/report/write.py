"""Computes a report of runs and writes its files."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from orchestrator.report.aborts import Abort
from orchestrator.report.assemble import sections_of
from orchestrator.report.decision import Decision, decisions
from orchestrator.report.head import boxes, foot, head
from orchestrator.report.load import Loaded
from orchestrator.report.page import Frame, page
from orchestrator.report.section import Section, summary_lines
from orchestrator.report.sides import study_of
from orchestrator.report.study import Study
from orchestrator.storage.output import Output

TITLE = "Retained-fraction report"


@dataclass(frozen=True, slots=True)
class Report:
    """A report, computed but not yet written."""

    study: Study
    decisions: tuple[Decision, ...]
    sections: tuple[Section, ...]
    refused: tuple[str, ...]


def compute(
    loaded: Loaded,
    aborts: Sequence[Abort] = (),
    baseline: str | None = None,
    challenger: str | None = None,
    more: Sequence[Section] = (),
) -> Report:
    """All sections, then `more`; `baseline` and `challenger` choose the compared arms."""
    study = study_of(loaded.runs, baseline, challenger)
    return report_of(study, aborts, more, loaded.refused)


def report_of(
    study: Study,
    aborts: Sequence[Abort] = (),
    more: Sequence[Section] = (),
    refused: tuple[str, ...] = (),
) -> Report:
    """All sections of a study, then `more`."""
    sections = (*sections_of(study, aborts), *more)
    return Report(study, decisions(study), sections, refused)


def write(report: Report, output: Output) -> list[str]:
    """Write page, figures and tables; return their paths."""
    from orchestrator.charts.picture import svg  # matplotlib is slow to load

    written = []
    for name, frame in (("cycles", report.study.cycles), ("instances", report.study.instances)):
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
        for path, data in ((f"{name}.parquet", parquet(table)), (f"{name}.csv", csv(table))):
            output.put(path, data)
            written.append(path)
    tables = tuple(written)
    for chart in (chart for section in report.sections for chart in section.charts):
        path = f"figures/{chart.key}.svg"
        output.put(path, svg(chart))
        written.append(path)
    html = page_of(report, tables)
    output.put("report.html", html.encode())
    return [*written, "report.html"]


def page_of(report: Report, tables: Sequence[str] = (), live: bool = False) -> str:
    """The report as a page, with links to these tables beside it."""
    top = head(report.study, report.refused, summary_lines(report.sections))
    around = Frame(boxes(report.decisions), top, foot(tables))
    return page(TITLE, around, report.sections, report.study.searching.is_paper_design, live)


def parquet(table: pa.Table | pd.DataFrame) -> bytes:
    """A table as a Parquet file."""
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    file = BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def csv(table: pa.Table) -> bytes:
    """A table as CSV: with a header, quoted texts, and empty fields for missing values."""
    file = BytesIO()
    pyarrow.csv.write_csv(table, file)
    return file.getvalue()
