"""Writes the analysis of an A/B test (page, figures, counts) and shows it on a terminal."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from rich.table import Table

from orchestrator.ab.counts import Trial, trials_table
from orchestrator.ab.summary import METRICS, Lift, Summary, plain_verdict, verdict_text
from orchestrator.report.page import page
from orchestrator.report.section import Section
from orchestrator.report.verdict import lift_text
from orchestrator.storage.output import Output


def write(trials: Sequence[Trial], section: Section, output: Output) -> list[str]:
    """Write counts.csv, figures/ and ab.html; return their paths."""
    from orchestrator.charts.picture import svg  # matplotlib is slow to load

    files = {"counts.csv": trials_table(trials).to_csv(index=False).encode()}
    files |= {f"figures/{chart.key}.svg": svg(chart) for chart in section.charts}
    days = sum(len(trial.days) for trial in trials)
    head = f"<p>{len(trials)} trials, {days} days: {escape(', '.join(t.name for t in trials))}</p>"
    foot = '<p>File beside this page: <a href="counts.csv">counts.csv</a>.</p>'
    files["ab.html"] = page("A/B test", head, [section], foot).encode()
    for path, data in files.items():
        output.put(path, data)
    return list(files)


def tables(summary: Summary) -> list[Table | str]:
    """The analysis for a terminal: a table by day, a table by trial, and the verdicts."""
    found: list[Table | str] = [
        _table("by day, all trials pooled", "day", [*summary.days, summary.whole])
    ]
    if len(summary.trials) > 1:
        found.append(_table("by trial", "trial", summary.trials))
    return [*found, plain_verdict(summary), *(verdict_text(summary, m) for m in METRICS)]


def data(summary: Summary) -> dict[str, Any]:
    """The analysis for programs."""
    return {
        "arms": summary.arms,
        "days": [asdict(lift) for lift in summary.days],
        "trials": [asdict(lift) for lift in summary.trials],
        "all": asdict(summary.whole),
        "verdict": plain_verdict(summary),
        "deciding": {
            metric: asdict(found) | {"basis": summary.basis}
            for metric, found in zip(METRICS, summary.deciding, strict=True)
        },
    }


def _table(title: str, first: str, lifts: Sequence[Lift]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in (first, "views", "clicks", "CPM lift (95%)", "CTR lift (95%)"):
        table.add_column(name, justify="left" if name == first else "right", no_wrap=True)
    for lift in lifts:
        table.add_row(
            lift.name,
            f"{lift.control.views + lift.treatment.views:,}",
            f"{lift.control.clicks + lift.treatment.clicks:,}",
            lift_text(lift.credible[1]),
            lift_text(lift.credible[0]),
        )
    return table
