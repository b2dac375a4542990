"""A description of a stream as a picture, for a person to check a mapping with."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from divergence.errors import InputError
from orchestrator.charts.chart import Axis, Bars, Chart, Line, Panel, Tone, numbers
from orchestrator.charts.picture import Layout, drawn
from orchestrator.sources.describe.summary import TOP, Description, FeatureSummary
from orchestrator.sources.describe.table import headline, shortened

KINDS: dict[str, Literal["png", "svg", "pdf"]] = {".png": "png", ".svg": "svg", ".pdf": "pdf"}
SHEET = Layout(columns=3, width=13.0, row=1.9, annotated=True)
EVENTS, CLICKS, NEW, VANISHED = range(4)
"""Colours."""


def draw(described: Description, path: Path, title: str) -> None:
    """Write the picture; the suffix of `path` says as what (png, svg, pdf)."""
    kind = KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(f"--picture {path}: the name must end in {', '.join(KINDS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(drawn(chart(described, title), kind, SHEET))


def chart(described: Description, title: str) -> Chart:
    """A row of panels for the stream, and one for each feature."""
    rows = [_stream(described)]
    rows += [_feature(feature, described.events) for feature in described.features]
    panels = tuple(panel for row in rows for panel in row)
    return Chart("stream", f"{title}: {headline(described)}", "", panels)


def _stream(described: Description) -> Iterator[Panel]:
    cycles = described.cycles
    yield _curves("events", [("", EVENTS, [cycle.events for cycle in cycles])])
    ctr = [cycle.clicks / cycle.events if cycle.events else float("nan") for cycle in cycles]
    yield _curves("CTR", [("", CLICKS, ctr)], "%")
    most = sorted(described.set_aside.items(), key=lambda item: -item[1])[:TOP]
    yield _bars(
        "rows set aside" if most else "rows set aside: none",
        [(reason, rows, f"{rows:,}") for reason, rows in most],
        "accent",
    )


def _feature(feature: FeatureSummary, events: int) -> Iterator[Panel]:
    missing = feature.missing / events if events else 0.0
    several = f", {feature.values_per_event:.2f} an event" if feature.multi else ""
    yield _curves(
        f"{'⚠ ' if missing > 0.5 else ''}{feature.name} ({feature.side}): "
        f"{feature.cardinality:,} values{several}, {missing:.2%} missing",
        [("distinct values", EVENTS, [cycle.values for cycle in feature.cycles])],
    )
    later, none = feature.cycles[1:], float("nan")  # in the first cycle every value is new
    new = [none, *(cycle.new for cycle in later)]
    vanished = [none, *(cycle.vanished for cycle in later)]
    changes = [("new values", NEW, new), ("vanished values", VANISHED, vanished)]
    yield _curves("", changes)
    yield _bars(
        "most frequent values: share of events, and CTR",
        [(v.value, v.share, f"{v.share:.1%} · CTR {v.ctr:.2%}") for v in feature.top],
        EVENTS,
    )


def _curves(
    title: str,
    curves: Sequence[tuple[str, Tone, Sequence[float]]],
    unit: Literal["%", "count"] = "count",
) -> Panel:
    """Series over the cycles, from zero up; above several, room for a legend."""
    cycles = numbers(range(len(curves[0][2])))
    lines = tuple(
        Line(name, tone, cycles, numbers(y), dots=unit == "%") for name, tone, y in curves
    )
    label, headroom = (lines[0].name, 1.1) if len(lines) == 1 else ("", 1.45)
    high = max([v for line in lines for v in line.y if v == v], default=0.0) or 1.0
    x = Axis("cycle", -0.5, max(len(cycles), 1) - 0.5, unit="cycle")
    return Panel(title, x, Axis(label, 0.0, high * headroom, unit=unit), lines)


def _bars(title: str, bars: Sequence[tuple[str, float, str]], tone: Tone) -> Panel:
    """Name, length and text of each bar, the first at the top; no marks if there are none."""
    names = tuple(shortened(name, 18) for name, _, _ in bars)
    values = numbers([value for _, value, _ in bars])
    x = Axis("", 0.0, max(values, default=1.0) * 1.75 or 1.0)
    y = Axis("", -0.6, TOP - 0.4, names=names)
    marks = (Bars("", tone, values, tuple(text for _, _, text in bars)),) if bars else ()
    return Panel(title, x, y, marks)
