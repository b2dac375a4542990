"""Makes the results page and its pictures from the tables of `reproduce.py`, without the runs."""

from collections.abc import Iterator
from pathlib import Path

import click
import pandas as pd

from orchestrator.charts.picture import svg
from orchestrator.report.section import ReportTable, Section
from orchestrator.report.verdict import Verdict, over_runs
from scripts.results.experiment_tables import TABLES, ExperimentTable, read_arms, read_table
from scripts.results.parts import PARTS, ResultPart
from scripts.results.readme import RESULTS, ROOT, replace_block

PICTURES = Path(__file__).parent
PAGES = (RESULTS, "README.md", "divergence/torch/README.md")
"""All pages with pictures of this folder."""
MARKETS = {
    "demo": "stormy, the demo",
    "week": "stormy, a week",
    "wide": "stormy, draws x/÷100",
    "faint": "stormy, faint signals, narrow draws",
    "lift": "stormy, two weeks, 16 instances",
    "movielens": "MovieLens 100K",
}
"""Experiments in the first table of the page; in the others the arms are what differs."""


@click.command()
@click.argument("tables", default=TABLES, type=click.Path(exists=True, path_type=Path))
def main(tables: Path) -> None:
    """Write scripts/results/README.md and its pictures from TABLES."""
    replace_block(RESULTS, "results", page_text(tables, PICTURES))
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    for picture in PICTURES.glob("*.svg"):
        if not any(picture.name in page for page in pages):
            picture.unlink()  # of an experiment that is no more


def page_text(tables: Path, pictures: Path) -> str:
    """The generated part of the page; its pictures go to the folder `pictures`."""
    lines = list(_arms_table(read_arms(tables), list(MARKETS), "market"))
    for part in PARTS:
        lines += _lines(part, tables, pictures)
    return "\n".join(lines)


def _lines(part: ResultPart, tables: Path, pictures: Path) -> Iterator[str]:
    yield f"### {part.heading}\n"
    table = read_table(tables, part.experiment)
    section = _section(part, table)
    if table is None or section is None:
        yield "Not run yet.\n"
        return
    yield from _findings(section, table)
    verdict, _ = over_runs(section.findings)
    if verdict is not Verdict.AGREES and part.explanation:
        yield f"Why, as far as we can tell: {part.explanation}\n"
    for grid in section.tables if part.table else ():
        yield from _grid(grid)
    if part.section == "rules":
        yield from _arms_table(read_arms(tables), [part.experiment], "arm")
    chart = next((c for c in section.charts if c.key == part.chart), None)
    if chart is not None:
        path = pictures / f"{part.experiment}-{chart.key}.svg"
        path.write_bytes(svg(chart))
        yield f"![{chart.title}]({path.name})\n"


def _findings(section: Section, table: ExperimentTable) -> Iterator[str]:
    verdict, count = over_runs(section.findings)
    yield f"The paper: {section.claim[0].lower()}{section.claim[1:]}"
    yield f"**Here: {verdict.value if verdict else 'no claim to judge'}** {count}".rstrip() + "\n"
    several = len(table.runs) > 1
    for finding in section.findings:
        name = f"{finding.run}: " if several else ""
        yield f"- {name}{finding.text}" + (f" *{finding.verdict.value}*" if finding.verdict else "")
    for run in table.runs:
        if run.planned is not None and run.cycles < run.planned:
            yield f"- {run.name} is not finished: {run.cycles} of {run.planned} cycles."
    yield ""


def _arms_table(arms: pd.DataFrame, experiments: list[str], first: str) -> Iterator[str]:
    """Every arm of some experiments: means over the seeds, and the range of its lifts."""
    there = [one for one in experiments if (arms["experiment"] == one).any()]
    if not there:
        return
    yield (
        f"| {first} | "
        + ("arm | " if first != "arm" else "")
        + (
            "retained | useful | cycles losing > 20% | cycles losing > 5% | served gain | "
            "lift over production, % |"
        )
    )
    yield "|---|" + "---|" * (7 if first != "arm" else 6)
    for experiment in there:
        mine = arms[arms["experiment"] == experiment]
        for arm, rows in mine.groupby("arm", sort=False):
            mean = rows.mean(numeric_only=True)
            lifts = rows["lift_percent"].dropna()
            spread = f"{lifts.min():+.2f} to {lifts.max():+.2f}" if len(lifts) else "-"
            names = [str(arm)] if first == "arm" else [MARKETS[experiment], str(arm)]
            shares = ("retained", "useful", "cycles_losing_over_20", "cycles_losing_over_5",
                      "served_gain")  # fmt: skip
            cells = [*names, *(f"{mean[name]:.1%}" for name in shares), spread]
            yield "| " + " | ".join(cells) + " |"
    yield (
        "\nMeans over the seeds, on the cycles that all arms share. Served gain: how far the "
        "served log-loss lies below that of a constant CTR. Lifts: of the lowest and the highest "
        "seed.\n"
    )


def _section(part: ResultPart, table: ExperimentTable | None) -> Section | None:
    sections = table.sections if table else ()
    return next((section for section in sections if section.key == part.section), None)


def _grid(grid: ReportTable) -> Iterator[str]:
    yield "| " + " | ".join(grid.columns) + " |"
    yield "|" + "---|" * len(grid.columns)
    for row in grid.rows:
        yield "| " + " | ".join(cell.text for cell in row) + " |"
    yield f"\n{grid.note}\n"


if __name__ == "__main__":
    main()
