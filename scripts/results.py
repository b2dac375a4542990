"""Puts the outcome of `scripts/reproduce.py` into the README: claims, verdicts, pictures.

Verdicts and numbers come from the runs. The explanations below were written after the runs, by
people who looked at them; each is shown only where the claim did not agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from readme import ROOT, replace_section
from reproduce import EXPERIMENTS, SEEDS, planned

from divergence.errors import InputError
from orchestrator.charts.chart import Chart
from orchestrator.charts.picture import svg
from orchestrator.report.load import load_runs
from orchestrator.report.section import Cell, ReportTable, Section
from orchestrator.report.sections.retained import HEAVY
from orchestrator.report.study import Study
from orchestrator.report.verdict import Verdict, over_runs
from orchestrator.report.write import Report, compute

PICTURES = Path("scripts/results")


@dataclass(frozen=True, slots=True)
class Part:
    """A section of an experiment's report, with what of it the README shows."""

    experiment: str
    section: str
    heading: str
    chart: str | None = None
    table: bool = False
    explanation: str = ""


UNFELT = (
    "log-loss here hardly depends on how vectors are held: the search below finds it the same from "
    "k = 0.03 to 10. The largest mean square of a champion's vectors is 0.05 to 0.09, about the "
    "bound that the entropic arms run with (0.074: k = 0.1, where ρ₀ is 0.74), so that of a model "
    "that wins only the few largest vectors are held, and selection has removed the hot settings "
    "in both arms."
)
PARTS = (
    Part(
        "week",
        "retained",
        "A week of cycles",
        chart="retained",
        explanation="how many are lost is a matter of how far from the champion one draws, which "
        "the paper does not tell, and of how near to the edge of stability the champion "
        "lives: ours live well inside. What does show, with every seed, is the direction: entropic "
        "loses about a third of what production loses.",
    ),
    Part(
        "wide",
        "retained",
        "The same with wider draws (eta0 times or divided by up to 30)",
        chart="retained",
        explanation="wider draws cost both arms more instances, entropic less than half of "
        "production's. Settings hot enough to blow up within the first steps of a chunk are lost "
        "under any penalty, however fast it rises. A market in which production often loses a "
        "fifth must be hotter than this one, or be searched by hotter settings still.",
    ),
    Part(
        "week",
        "norms",
        "How large the vectors become",
        explanation="in the calm market, whose ads and tastes last, production's largest vectors "
        "grow to twice entropic's. In the stormy one they are gone sooner, and the difference is "
        "smaller than what one seed's week can tell.",
    ),
    Part(
        "lift",
        "lift",
        "Two weeks of lift",
        chart="lift",
        explanation="the mean lift is above zero in every run, in the calm market with its whole "
        "interval, and larger there, where production's vectors grow larger, too. What mostly "
        'fails is "consistently", which we take as nine tenths of the time.',
    ),
    Part(
        "duel",
        "entropic-euclidean",
        "Entropic against Euclidean",
        explanation="with an implicit step, a floor under the price and its best step size, "
        "Euclidean ascent holds the same settings about as well, and norms somewhat better.",
    ),
    Part("rho", "bound", "The bound and its k", chart="k-search", explanation=UNFELT),
    Part(
        "rules",
        "rules",
        "Every rule",
        explanation="one day with 16 instances tells differences of about two points. What it does "
        "tell: the paper's rule as it is printed does what `none` does, since its price never "
        "rises far enough in a cycle; with an implicit step and a floor it works. Projection, "
        "max-norm and clippy, which are simpler, retain everything at no worse a log-loss.",
    ),
    Part(
        "map",
        "stability",
        "The edge of stability (15 settings, each kept for a day of 4,000 events a cycle)",
        chart="edge-of-stability",
        table=True,
    ),
    Part(
        "movielens",
        "retained",
        "MovieLens 100K",
        explanation="on real events the effect is larger than on simulated ones, but 48 cycles "
        "are too few to tell what happens rarely.",
    ),
    Part(
        "movielens",
        "lift",
        "MovieLens 100K: lift",
        explanation="48 cycles cannot tell a difference of a percent; that the curve is above "
        "zero only half of the time is what decides.",
    ),
)


@click.command()
@click.argument("runs", default="runs/paper", type=click.Path(path_type=Path))
def main(runs: Path) -> None:
    """Regenerate the README's results from RUNS, the folder of scripts/reproduce.py."""
    reports = {one.name: _report(runs, one.name) for one in EXPERIMENTS}
    text = [line for part in PARTS for line in _told(part, reports[part.experiment])]
    replace_section("results", "\n".join(text))


def _report(folder: Path, experiment: str) -> Report | None:
    """The report of an experiment's runs, as far as they are; None where there are none."""
    names = [run.name for run in planned(SEEDS, (experiment,))]
    there = [str(folder / name) for name in names if (folder / name / "config.yaml").exists()]
    try:
        return compute(load_runs(there)) if there else None
    except InputError as error:
        raise click.ClickException(str(error)) from None


def _told(part: Part, report: Report | None) -> Iterator[str]:
    section = _section(part, report)
    yield f"#### {part.heading}\n"
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
        (ROOT / path).parent.mkdir(exist_ok=True)
        (ROOT / path).write_bytes(svg(_first_seed(chart)))
        yield f"![{chart.title}]({path.as_posix()})\n"


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
    note = "Means over the seeds, on the cycles that all arms share; of lifts, least and largest."
    return ReportTable("", columns, tuple(rows), note)


def _section(part: Part, report: Report | None) -> Section | None:
    sections = report.sections if report else ()
    return next((section for section in sections if section.key == part.section), None)


def _first_seed(chart: Chart) -> Chart:
    """The panels of the first seed's runs: the README has room for no more."""
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
