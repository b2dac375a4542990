"""The report's section on the online A/B test: the paper's table by day, posteriors, trials."""

from dataclasses import replace

import numpy as np

from orchestrator.ab.summary import METRICS, PAPER, Lift, Summary, plain_verdict, verdict_text
from orchestrator.charts.chart import Axis, Chart, Level, Line, Mark, Numbers, Panel, Span, span_of
from orchestrator.report.interval import Estimate
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.verdict import Statement, above, judged, lift_text

BINS = 80
NOTES = {
    "split": "A view is clicked with probability p (Jeffreys' Beta posterior). A click costs an "
    "exponential amount with rate λ (scale-free Gamma posterior). CPM = 1000 p / λ. Lifts come "
    "from 100,000 draws; credible intervals run from the 2.5 to the 97.5 percentile. This "
    "model assumes that views are independent. But the same users come back and worlds differ, "
    "so with three or more trials the verdict uses Student's interval over the trials instead. "
    "In the marketplace, users are split by a hash, each bucket's own champion ranks the ads "
    "by bid times predicted CTR in a second-price auction, the market's true probabilities "
    "decide the clicks, and each arm learns from its own traffic, unless the config says "
    "otherwise.",
    "twins": "Both arms serve the same users, those of the treatment's bucket, each in its own "
    "copy of the market: the same arrivals, candidates, bids and coins for clicks (a hash of "
    "visit and ad), so that an A/A test is exactly zero. Only a simulator can do this. The arms "
    "are not independent, so credible intervals do not apply. Paired intervals come from the "
    "differences cycle by cycle and allow for correlation in time; they are about the worlds of "
    "these trials. With three or more trials the verdict uses Student's interval over the trials.",
}


def ab(summary: Summary) -> Section:
    """The section on the trials of one design."""
    control, treatment = summary.arms
    statements = [
        Statement(f"the {metric} lift is above zero", above(found))
        for metric, found in zip(METRICS, summary.deciding, strict=True)
    ]
    verdicts = [plain_verdict(summary), *(verdict_text(summary, metric) for metric in METRICS)]
    text = f"{treatment} against {control}: {' '.join(verdicts)}"
    split = summary.design == "split"
    return Section(
        key="ab" if split else f"ab-{summary.design}",
        title="Online A/B test" if split else f"Online A/B test: {summary.design}",
        claim="Over nine days the new algorithm's CTR is 0.93% and its CPM 0.67% higher than "
        "production's; both 95% credible intervals lie above zero.",
        findings=(judged(text, "A/B test", *statements),),
        charts=(*_posteriors(summary), _by_day(summary)),
        tables=(_day_table(summary), _trial_table(summary)),
        note=NOTES[summary.design],
    )


def _posteriors(summary: Summary) -> tuple[Chart, ...]:
    if summary.draws is None:
        return ()
    both = summary.draws.ctr, summary.draws.cpm
    panels = [
        _posterior(metric, draws, found)
        for metric, draws, found in zip(METRICS, both, summary.whole.interval, strict=True)
    ]
    chart = Chart(
        "ab-posterior",
        "Posterior of the lifts, all trials pooled",
        "Monte Carlo draws from the Bayesian posteriors. Shaded: the 95% credible interval.",
        tuple(panels),
        wide=False,
    )
    return (chart,)


def _posterior(metric: str, draws: Numbers, found: Estimate) -> Panel:
    density, edges = np.histogram(draws, BINS, density=True)
    low, high = span_of([edges], include=[0.0, PAPER[metric]])
    marks: tuple[Mark, ...] = (
        Span("95%", found.low, found.high),
        Line(metric, METRICS.index(metric), (edges[1:] + edges[:-1]) / 2, density),
        Level("", 0.0, along="y"),
        Level("paper", PAPER[metric], along="y"),
    )
    x = Axis(f"{metric} lift, %", low, high)
    return Panel(
        f"{metric} {lift_text(found)}", x, Axis("density", 0.0, 1.1 * density.max()), marks
    )


def _by_day(summary: Summary) -> Chart:
    panels = []
    days = np.array([float(lift.name) for lift in summary.days])
    for index, metric in enumerate(METRICS):
        values = np.array([lift.observed[index] for lift in summary.days])
        bounds = [
            np.array([getattr(lift.interval[index], end) for lift in summary.days])
            for end in ("low", "high")
        ]
        low, high = span_of([values, *bounds], include=[0.0, PAPER[metric]])
        edges = (Line("95%", index, days, bound, faint=True) for bound in bounds)
        panels.append(
            Panel(
                metric,
                Axis("day", days.min() - 0.5, days.max() + 0.5),
                Axis(f"{metric} lift, %", low, high),
                (
                    *edges,
                    Line(metric, index, days, values, dots=True),
                    Level("", 0.0),
                    Level("paper", PAPER[metric]),
                ),
            )
        )
    return Chart(
        "ab-days" if summary.design == "split" else f"ab-days-{summary.design}",
        "Lifts by day, all trials pooled",
        f"Above zero is better. Thin: the 95% {summary.interval_name} interval.",
        tuple(panels),
        wide=False,
    )


def _day_table(summary: Summary) -> ReportTable:
    rows = tuple(
        (
            number(float(lift.name), ".0f"),
            _lift_cell(lift, 1),
            _lift_cell(lift, 0),
            number(lift.control.views + lift.treatment.views, ",.0f"),
            number(lift.control.clicks + lift.treatment.clicks, ",.0f"),
        )
        for lift in summary.days
    )
    columns = ("day", "CPM lift", "CTR lift", "views", "clicks")
    title = "By day, all trials pooled, as in the paper's table"
    return ReportTable(f"{title}, with 95% {summary.interval_name} intervals", columns, rows)


def _trial_table(summary: Summary) -> ReportTable:
    columns = ["trial", "CTR", "new CTR", "CTR lift", "CPM", "new CPM", "CPM lift"]
    rows = [_trial_row(lift) for lift in (*summary.trials, summary.whole)]
    if summary.lost:
        columns += ["lost instances", "new lost"]
        shares = [*summary.lost, tuple(np.mean(summary.lost, axis=0))]
        rows = [
            (*row, *(number(100 * share, ".2f", "%") for share in both))
            for row, both in zip(rows, shares, strict=True)
        ]
    title = f"By trial, with 95% {summary.interval_name} intervals"
    return ReportTable(title, tuple(columns), tuple(rows))


def _trial_row(lift: Lift) -> tuple[Cell, ...]:
    return (
        Cell(lift.name),
        number(100 * lift.control.ctr, ".3f", "%"),
        number(100 * lift.treatment.ctr, ".3f", "%"),
        _lift_cell(lift, 0),
        number(lift.control.cpm, ".3f"),
        number(lift.treatment.cpm, ".3f"),
        _lift_cell(lift, 1),
    )


def _lift_cell(lift: Lift, index: int) -> Cell:
    """The observed lift of a metric, with its interval."""
    found = replace(lift.interval[index], mean=lift.observed[index])
    return Cell(lift_text(found), found.mean)
