"""Writes the outcome of `reproduce.py` to the results page: claims, verdicts, pictures.

Verdicts and numbers come from the runs. The explanations below were written by hand after the runs;
each is shown only where the claim did not agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

from divergence.errors import InputError
from orchestrator.charts.chart import Chart
from orchestrator.charts.picture import svg
from orchestrator.report.load import load_runs
from orchestrator.report.section import Cell, ReportTable, Section
from orchestrator.report.sections.retained import HEAVY
from orchestrator.report.study import Study
from orchestrator.report.verdict import Verdict, over_runs
from orchestrator.report.write import Report, compute
from scripts.results.readme import RESULTS, replace_block
from scripts.results.reproduce import EXPERIMENTS, SEEDS, planned

PICTURES = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A section of an experiment's report, and what the results page shows of it."""

    experiment: str
    section: str
    heading: str
    chart: str | None = None
    table: bool = False
    explanation: str = ""


PARTS = (
    ResultPart(
        "week",
        "retained",
        "A week of cycles",
        chart="retained",
        explanation="how many instances are lost depends on how far from the champion the "
        "search draws, which the paper does not say, and on how close the champion is to the "
        "edge of stability: ours stay well inside it. The direction is the same with every "
        "seed: entropic loses about a third of what production loses.",
    ),
    ResultPart(
        "wide",
        "retained",
        "The same with wider draws (eta0 times or divided by up to 30)",
        chart="retained",
        explanation="wider draws cost both arms more instances, but entropic less than half "
        "as many as production. Settings so aggressive that they blow up in the first steps "
        "of a chunk are lost under any penalty, however fast it rises. A market in which "
        "production often loses a fifth must be more volatile than this one, or be searched "
        "with even more aggressive settings.",
    ),
    ResultPart(
        "week",
        "norms",
        "How large the vectors become",
        explanation="in the calm market, where ads and tastes last, production's largest "
        "vectors grow to twice the size of entropic's. In the stormy market vectors disappear "
        "sooner, and the difference is too small to measure in one week of one seed.",
    ),
    ResultPart(
        "lift",
        "lift",
        "Two weeks of lift",
        chart="lift",
        explanation="the mean lift is above zero in every run. In the calm market the entire "
        "interval is, and the lift is larger; that is also where production's vectors grow "
        'larger. What mostly fails is "consistently", which we define as nine tenths of the '
        "time.",
    ),
    ResultPart(
        "duel",
        "entropic-euclidean",
        "Entropic against Euclidean",
        explanation="with an implicit step, a floor under the multiplier and its best step "
        "size, Euclidean ascent keeps the same settings alive about as well, and keeps norms "
        "somewhat lower.",
    ),
    ResultPart(
        "rho",
        "bound",
        "The bound and its k",
        chart="k-search",
        explanation="log-loss here hardly depends on how vectors are bounded: the search "
        "below finds the same log-loss from k = 0.03 to 10. The largest mean square of a "
        "champion's vectors is 0.05 to 0.09, about the bound that the entropic arms use "
        "(0.074: k = 0.1 and ρ₀ = 0.74). So in a winning model only the few largest vectors "
        "are held, and in both arms selection has already removed the aggressive settings.",
    ),
    ResultPart(
        "rules",
        "rules",
        "Every rule",
        explanation="one day with 16 instances shows differences of about two points or more. "
        "What it does show: the paper's rule as printed behaves like `none`, because its "
        "multiplier never rises far enough within a cycle; with an implicit step and a floor "
        "it works. Projection, max-norm and clippy are simpler, and retain everything at no "
        "worse a log-loss.",
    ),
    ResultPart(
        "map",
        "stability",
        "The edge of stability (15 settings, each kept for a day of 4,000 events a cycle)",
        chart="edge-of-stability",
        table=True,
    ),
    ResultPart(
        "movielens",
        "retained",
        "MovieLens 100K",
        explanation="the effect is larger on real events than on simulated ones, but 48 "
        "cycles are too few to measure what happens rarely.",
    ),
    ResultPart(
        "movielens",
        "lift",
        "MovieLens 100K: lift",
        explanation="48 cycles are too few to show a difference of one percent; the verdict "
        "follows from the curve, which is above zero only half of the time.",
    ),
)


@click.command()
@click.argument("runs", default="runs/paper", type=click.Path(path_type=Path))
def main(runs: Path) -> None:
    """Write scripts/results/README.md from RUNS, the folder of scripts/results/reproduce.py."""
    reports = {one.name: _report(runs, one.name) for one in EXPERIMENTS}
    text = [line for part in PARTS for line in _lines(part, reports[part.experiment])]
    replace_block(RESULTS, "results", "\n".join(text))


def _report(folder: Path, experiment: str) -> Report | None:
    """The report of an experiment's runs, as far as they are; None where there are none."""
    names = [run.name for run in planned(SEEDS, (experiment,))]
    there = [str(folder / name) for name in names if (folder / name / "config.yaml").exists()]
    try:
        return compute(load_runs(there)) if there else None
    except InputError as error:
        raise click.ClickException(str(error)) from None


def _lines(part: ResultPart, report: Report | None) -> Iterator[str]:
    section = _section(part, report)
    yield f"### {part.heading}\n"
    if report is None or section is None:
        yield "Not run yet.\n"
        return
    verdict, count = over_runs(section.findings)
    yield f"The paper: {section.claim[0].lower()}{section.claim[1:]}"
    yield f"**Here: {verdict.value if verdict else 'no claim to judge'}** {count}".rstrip() + "\n"
    several = len(report.study.shown) > 1
    for finding in section.findings:
        name = f"{finding.run}: " if several else ""
        yield f"- {name}{finding.text}" + (f" *{finding.verdict.value}*" if finding.verdict else "")
    for run in report.study.shown:
        if run.config.cycles is not None and run.cycles < run.config.cycles:
            yield f"- {run.name} is not finished: {run.cycles} of {run.config.cycles} cycles."
    yield ""
    if verdict is not Verdict.AGREES and part.explanation:
        yield f"Why, as far as we can tell: {part.explanation}\n"
    if part.table:
        yield from _table(section.tables[0])
    if part.section == "rules":
        yield from _table(_by_rule(report.study))
    chart = next((c for c in section.charts if c.key == part.chart), None)
    if chart is not None:
        path = PICTURES / f"{part.experiment}-{chart.key}.svg"
        path.write_bytes(svg(_first_seed(chart)))
        yield f"![{chart.title}]({path.name})\n"


def _by_rule(study: Study) -> ReportTable:
    """Every arm over all runs: means, and the spread of lifts from seed to seed."""
    rows = []
    for arm in (a for a in study.arms if all(len(study.of(run, a)) for run in study.shown)):
        frames = [study.of(run, arm).loc[study.shared(run)] for run in study.shown]
        pairs = [study.pair(run, arm, study.baseline_of(run)) for run in study.shown]
        lifts = [float(pair.settled(pair.lift()).mean()) for pair in pairs]
        lost = [1 - frame["retained_fraction"] for frame in frames]
        means = (
            np.mean([1 - series.mean() for series in lost]),
            np.mean([frame["useful_fraction"].mean() for frame in frames]),
            np.mean([(series > HEAVY).mean() for series in lost]),
        )
        spread = f"{min(lifts):+.2f} to {max(lifts):+.2f}" if any(lifts) else "-"
        rows.append((Cell(arm), *(Cell(f"{mean:.1%}") for mean in means), Cell(spread)))
    columns = ("arm", "retained", "useful", "cycles losing > 20%", "lift over production, %")
    note = "Means over the seeds, on the cycles that all arms share; lifts: smallest and largest."
    return ReportTable("", columns, tuple(rows), note)


def _section(part: ResultPart, report: Report | None) -> Section | None:
    sections = report.sections if report else ()
    return next((section for section in sections if section.key == part.section), None)


def _first_seed(chart: Chart) -> Chart:
    """The panels of the first seed's runs: the page has no room for more."""
    first = [p for p in chart.panels if p.title.partition(":")[0].endswith("-1")]
    return replace(chart, panels=tuple(first)) if first else chart


def _table(grid: ReportTable) -> Iterator[str]:
    yield "| " + " | ".join(grid.columns) + " |"
    yield "|" + "---|" * len(grid.columns)
    for row in grid.rows:
        yield "| " + " | ".join(cell.text for cell in row) + " |"
    yield f"\n{grid.note}\n"


if __name__ == "__main__":
    main()
