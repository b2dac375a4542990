"""Writes the analysis of an A/B test (page, figures, counts) and shows it on a terminal."""

from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from rich.table import Table

from orchestrator.ab.counts import Trial, trials_table
from orchestrator.ab.summary import METRICS, Lift, Summary, plain_verdict, verdict_text
from orchestrator.report.page import Frame, page
from orchestrator.report.section import Section
from orchestrator.report.verdict import lift_text
from orchestrator.storage.output import Output

COUNTS = {"split": "counts.csv", "twins": "counts-twins.csv"}


def write(trials: Sequence[Trial], sections: Sequence[Section], output: Output) -> list[str]:
    """Write the counts of each design, figures/ and ab.html; return their paths."""
    from orchestrator.charts.picture import svg  # matplotlib is slow to load

    files = {}
    for design, name in COUNTS.items():
        own = [trial for trial in trials if trial.design == design]
        if own:
            files[name] = trials_table(own).to_csv(index=False).encode()
    links = ", ".join(f'<a href="{name}">{name}</a>' for name in files)
    foot = f"<p>Daily counts, beside this page: {links}.</p>"
    files |= {f"figures/{c.key}.svg": svg(c) for section in sections for c in section.charts}
    days = sum(len(trial.days) for trial in trials)
    names = ", ".join(dict.fromkeys(trial.name for trial in trials))
    head = f"<p>{len(trials)} trials, {days} days: {escape(names)}</p>"
    files["ab.html"] = page("A/B test", Frame("", head, foot), sections).encode()
    for path, data in files.items():
        output.put(path, data)
    return list(files)


def tables(summary: Summary) -> list[Table | str]:
    """The analysis for a terminal: the arms, a table by day, a table by trial, the verdicts."""
    control, treatment = summary.arms
    kind = f"95% {summary.interval_name} intervals"
    found: list[Table | str] = [
        f"{treatment} (treatment) against {control} (control): {summary.design}, {kind}",
        _table("by day, all trials pooled", "day", [*summary.days, summary.whole]),
    ]
    if len(summary.trials) > 1:
        found.append(_table("by trial", "trial", summary.trials))
    return [*found, plain_verdict(summary), *(verdict_text(summary, m) for m in METRICS)]


def data(summaries: Sequence[Summary]) -> dict[str, Any]:
    """The analysis for programs: that of the first design, and the others under their names."""
    first, *others = summaries
    return _data(first) | {other.design: _data(other) for other in others}


def _data(summary: Summary) -> dict[str, Any]:
    def lift(found: Lift) -> dict[str, Any]:
        fields = asdict(found)
        return fields | {summary.interval_name: fields.pop("interval")}

    return {
        "design": summary.design,
        "arms": summary.arms,
        "days": [lift(found) for found in summary.days],
        "trials": [lift(found) for found in summary.trials],
        "all": lift(summary.whole),
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
            lift_text(lift.interval[1]),
            lift_text(lift.interval[0]),
        )
    return table
