"""What a notebook shows: objects with the methods that Jupyter looks for, and `save`."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import cast, get_args

from divergence.errors import InputError
from orchestrator.charts.chart import Chart
from orchestrator.charts.picture import PictureKind, drawn, svg
from orchestrator.report.decision import Decision
from orchestrator.report.head import boxes
from orchestrator.storage.output import write_file

KINDS: tuple[str, ...] = get_args(PictureKind)
HEIGHT_PX = 760
"""Of the report inside a notebook, which has a scroll bar of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class ReportFigure:
    """A figure of the report. `chart` has its data."""

    chart: Chart

    @property
    def name(self) -> str:
        """The name by which `figure` finds it, and of its file in a report."""
        return self.chart.key

    @property
    def title(self) -> str:
        """What it shows."""
        return self.chart.title

    @property
    def caption(self) -> str:
        """How to read it."""
        return self.chart.caption

    def save(self, path: str | Path) -> None:
        """Write it to a path or URI that ends in .svg, .png or .pdf."""
        kind = Path(path).suffix.removeprefix(".").lower()
        if kind not in KINDS:
            raise InputError(f"{path}: must end in .{', .'.join(KINDS)}")
        write_file(path, drawn(self.chart, cast(PictureKind, kind)))

    def _repr_svg_(self) -> str:
        return svg(self.chart).decode()

    def __repr__(self) -> str:
        return f"{self.name}: {self.title}"


class ReportFigures(Mapping[str, ReportFigure]):
    """The figures of a report by name. A notebook shows all of them."""

    def __init__(self, figures: Iterable[ReportFigure]) -> None:
        self._figures = {figure.name: figure for figure in figures}

    def __getitem__(self, name: str) -> ReportFigure:
        return self._figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def _repr_html_(self) -> str:
        return "".join(map(_with_caption, self.values()))

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))


@dataclass(frozen=True, slots=True)
class AdviceBox:
    """The decisions that the report begins with: one for each run with two arms."""

    decisions: tuple[Decision, ...]

    def _repr_html_(self) -> str:
        return boxes(self.decisions) or escape(repr(self))

    def __repr__(self) -> str:
        lines = [f"{one.run}: {one.headline}. {one.reason}" for one in self.decisions]
        return "\n".join(lines) or "No two arms share a cycle."


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The report as one HTML page."""

    html: str

    def save(self, path: str | Path) -> None:
        """Write it to a path or URI."""
        write_file(path, self.html.encode())

    def _repr_html_(self) -> str:
        # A frame keeps the page's styles and scripts apart from those of the notebook.
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width:100%;border:0" '
            f'height="{HEIGHT_PX}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"the report, {len(self.html):,} characters of HTML; save(path) writes it"


def _with_caption(figure: ReportFigure) -> str:
    # An image of its own: two SVGs inside one page would share the names of their parts.
    data = base64.b64encode(svg(figure.chart)).decode()
    return (
        f'<figure style="margin:0 0 2em"><img alt="{escape(figure.title)}" '
        f'src="data:image/svg+xml;base64,{data}"/>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )
