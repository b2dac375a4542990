"""The report as one HTML page: no network, no library; texts of a run cannot execute."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from orchestrator.charts.chart import Chart
from orchestrator.offline.story import STORY, Story
from orchestrator.offline.story_view import definitions
from orchestrator.offline.story_view import title as story_title
from orchestrator.report.section import Cell, ReportTable, Section
from orchestrator.report.verdict import Finding, Verdict, over_runs

SCRIPTS = ("scale.js", "marks.js", "chart.js", "table.js", "story.js")
LIVE_SCRIPT = "live.js"
FIGURES = " The folder figures/ beside this page holds them as SVG files."
LIVE_STRIP = '<div id="live" role="status"></div>'
OPENING, MAX_OPENING = "retained", 3
"""The chart that a report on the paper's design opens with, and its panels at most."""
DIGITS = 5
"""Significant digits of the numbers in the page's charts; the Parquet files have all digits."""
BADGES = {
    Verdict.AGREES: ("agrees", "✓"),
    Verdict.DISAGREES: ("disagrees", "✗"),
    Verdict.OPEN: ("open", "?"),
    Verdict.MIXED: ("open", "±"),
}


@dataclass(frozen=True, slots=True)
class Frame:
    """What is around the sections, as HTML: the decision, the runs, and the notes at the end."""

    box: str
    head: str
    foot: str


def page(
    title: str,
    frame: Frame,
    sections: Sequence[Section],
    paper_first: bool = True,
    live: bool = False,
    figures: bool = True,
) -> str:
    """The complete document.

    `paper_first`: it opens on the paper's picture, and the claims come before the sections; else it
    opens on the decision. A `live` page asks the server it came from for a newer one, and shows the
    state of the run. `figures`: the charts are beside it as files.
    """
    style = _asset("page.css")
    names = (*SCRIPTS, LIVE_SCRIPT) if live else SCRIPTS
    script = "\n".join(_asset(name).replace('"use strict";\n', "") for name in names)
    script = f'"use strict";\n{script}'
    charts = [as_data(chart) for section in sections for chart in section.charts]
    stories = [story for section in sections for story in section.stories]
    first = _opening(sections) if paper_first else None
    claims = _overview(sections) if len(sections) > 1 else ""
    return Template(_asset("page.html")).substitute(
        title=escape(title),
        connect="connect-src 'self'; " if live else "",
        live=LIVE_STRIP if live else "",
        head=(_figure(first) if first else "")
        + frame.box
        + frame.head
        + (claims if paper_first else ""),
        main="\n".join(_section(number, one, first) for number, one in enumerate(sections, 1)),
        foot=("" if paper_first else claims) + frame.foot,
        figures=FIGURES if figures else "",
        charts=_script_data(charts),
        stories=_script_data([STORY.dump_python(story) for story in stories]),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
    )


def _script_data(data: Any) -> str:
    """JSON that is safe inside a script element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def as_data(chart: Chart) -> dict[str, Any]:
    """A chart in the form that the page's script reads; a number that is not finite is null."""
    data: dict[str, Any] = _plain(chart)
    for panel, drawn in zip(data["panels"], chart.panels, strict=True):
        for mark, kind in zip(panel["marks"], drawn.marks, strict=True):
            mark["kind"] = type(kind).__name__.lower()
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, float):
        short = float(f"{value:.{DIGITS}g}")
        if not np.isfinite(short):
            return None
        return int(short) if short == int(short) and abs(short) < 1e15 else short
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _opening(sections: Sequence[Section]) -> Chart | None:
    """The chart that the page opens with, as the paper does, unless it has too many panels."""
    charts = (chart for section in sections for chart in section.charts)
    found = next((chart for chart in charts if chart.key == OPENING), None)
    return found if found and len(found.panels) <= MAX_OPENING else None


def _overview(sections: Sequence[Section]) -> str:
    """A table of the claims and their verdicts."""
    rows = []
    for number, section in enumerate(sections, 1):
        verdict, detail = over_runs(section.findings)
        if verdict is not None:
            rows.append(
                f'<tr><td><a href="#{section.key}">{number}. {escape(section.title)}</a></td>'
                f"<td>{escape(section.claim)}</td><td>{_badge(verdict)} {escape(detail)}</td></tr>"
            )
    if not rows:
        return ""
    return (
        '<div class="table claims"><table><thead><tr><th></th><th>the paper</th><th>these runs</th>'
        f"</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _section(number: int, section: Section, shown: Chart | None) -> str:
    """A section, without the chart that is shown already."""
    verdict, _ = over_runs(section.findings)
    several = len({finding.run for finding in section.findings}) > 1
    parts = [
        f'<section id="{section.key}"><h2>{number}. {escape(section.title)} '
        f"{_badge(verdict) if verdict else ''}</h2>",
        f'<dl class="says"><dt>the paper</dt><dd>{escape(section.claim)}</dd>',
        *(_finding(finding, several) for finding in section.findings),
        "</dl>",
        *(_story(number, story) for number, story in enumerate(section.stories)),
        *(_figure(chart) for chart in section.charts if chart is not shown),
        *map(_table, section.tables),
    ]
    if section.note:
        note = escape(section.note)
        parts.append(f"<details><summary>How this was computed</summary><p>{note}</p></details>")
    return "\n".join([*parts, "</section>"])


def _finding(finding: Finding, several: bool) -> str:
    name = escape(finding.run) if several else "here"
    badge = _badge(finding.verdict) if finding.verdict else ""
    statements = "".join(
        f"<li>{_badge(one.verdict, short=True)} {escape(one.text)}</li>"
        for one in finding.statements
    )
    listed = f'<ul class="statements">{statements}</ul>' if statements else ""
    return f"<dt>{name}</dt><dd>{escape(finding.text)} {badge}{listed}</dd>"


def _badge(verdict: Verdict, short: bool = False) -> str:
    kind, sign = BADGES[verdict]
    text = sign if short else f"{sign} {verdict.value}"
    return f'<span class="badge {kind}" title="{verdict.value}">{text}</span>'


def _figure(chart: Chart) -> str:
    kind = "panels" if chart.wide or len(chart.panels) == 1 else "panels aside"
    return (
        f'<figure id="chart-{chart.key}"><h3>{escape(chart.title)}</h3>'
        f'<div class="legend"></div><div class="{kind}"></div>'
        f'<figcaption>{escape(chart.caption)} <span class="hint">Drag to zoom, double-click to '
        "reset.</span></figcaption></figure>"
    )


def _story(number: int, story: Story) -> str:
    """A graph to play; one section of a page has stories."""
    hidden = story.grown - len(story.vectors)
    left_out = (
        f" The graph shows {len(story.vectors)} of the {story.grown} vectors that grew: those by "
        "which growth came to the end, and the first of the others."
        if hidden
        else ""
    )
    return (
        f'<figure id="story-{number}"><h3>{escape(story_title(story))}: how growth spread</h3>'
        '<div class="play"><button type="button">Play</button>'
        '<input type="range" min="0" aria-label="event"><output aria-live="off"></output></div>'
        '<div class="panels aside"></div>'
        f"<figcaption>{escape(definitions(story))} Each dot is a vector, at the event at which it "
        "grew; its size is its norm at the moment. The ring marks the one that reached τ. The axis "
        "is stretched towards the end. The twin has the same vectors at the same places."
        f"{left_out}</figcaption></figure>"
    )


def _table(table: ReportTable) -> str:
    table = without_run(table)
    heads = "".join(
        f'<th scope="col"><button type="button">{escape(name)}</button></th>'
        if name
        else "<th></th>"
        for name in table.columns
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    caption = escape(f"{table.title}. {table.note}".strip())
    return (
        f'<div class="table"><table class="sortable"><caption>{caption}</caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def without_run(table: ReportTable) -> ReportTable:
    """Remove the first column if it names the same run in every row."""
    if table.columns[0] != "run" or len({row[0] for row in table.rows}) > 1:
        return table
    return replace(table, columns=table.columns[1:], rows=tuple(row[1:] for row in table.rows))


def _cell(cell: Cell) -> str:
    order = "" if cell.order is None else f' data-order="{_order(cell.order)}"'
    if cell.tone is not None:
        swatch = f'<span class="swatch tone-{cell.tone % 8}"></span>'
        return f'<td class="name">{swatch}{escape(cell.text)}</td>'
    value, bracket, interval = cell.text.partition(" (")
    below = f"<small>{escape(bracket.strip() + interval)}</small>" if bracket else ""
    return f"<td{order}>{escape(value)}{below}</td>"


def _order(value: float) -> str:
    return f"{value:.10g}" if np.isfinite(value) else "-Infinity"


def _asset(name: str) -> str:
    return (files("orchestrator.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The hash that lets exactly these bytes run under the page's security policy."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
