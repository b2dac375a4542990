"""How large the champion's vectors are: the paper's second result."""

import math

from orchestrator.charts.chart import Chart, Panel
from orchestrator.report.interval import Estimate, mean_interval
from orchestrator.report.load import Run
from orchestrator.report.section import Section
from orchestrator.report.sections.curves import (
    arm_curves,
    cycle_panel,
    robust_axis,
    smoothing_text,
)
from orchestrator.report.study import Pair, Study, running_median
from orchestrator.report.verdict import Finding, Statement, below, judged

MEASURES = (("max_inf", "largest ‖v‖∞"), ("max_msqr", "largest mean square"))


def norms(study: Study) -> Section:
    """Largest norm and mean square of the champion of each cycle, by arm."""
    pairs = [pair for run in study.shown if (pair := study.main_pair(run))]
    return Section(
        key="norms",
        title="Vector norms",
        claim="The largest infinity norm and the largest mean square of any vector are "
        "substantially smaller with the new algorithm than in production.",
        findings=tuple(_finding(pair) for pair in pairs),
        charts=(
            Chart(
                "norms",
                "Largest vectors of the champion after each cycle",
                smoothing_text(study, "median"),
                tuple(_panel(study, run, *m) for run in study.shown for m in MEASURES),
                wide=False,
            ),
        ),
        note="The ratio of the arms is computed cycle by cycle and averaged as a logarithm. An arm "
        "that started from the baseline's model is compared after its acclimation.",
        compares_main_arms=True,
    )


def ratio_interval(pair: Pair, column: str) -> Estimate:
    """Mean of ln(ours / theirs)."""
    return mean_interval(pair.log_ratio(column))


def ratio_text(found: Estimate) -> str:
    """A mean of logarithms as "0.62 times (0.58 to 0.66)"."""
    if not math.isfinite(found.mean):
        return "an unknown multiple of"
    text = f"{math.exp(found.mean):.2f} times"
    if not found.known:
        return f"{text} ({found.count} cycles: too few for an interval)"
    return f"{text} ({math.exp(found.low):.2f} to {math.exp(found.high):.2f})"


def _finding(pair: Pair) -> Finding:
    found = [ratio_interval(pair, column) for column, _ in MEASURES]
    text = (
        f"With {pair.arm} the largest ‖v‖∞ is {ratio_text(found[0])} and the largest mean square "
        f"{ratio_text(found[1])} that of {pair.baseline}."
    )
    parts = [
        Statement(f"the {label} is smaller", below(one))
        for one, (_, label) in zip(found, MEASURES, strict=True)
    ]
    return judged(text, pair.run, *parts)


def _panel(study: Study, run: Run, column: str, label: str) -> Panel:
    lines = arm_curves(study, run, column, run.records, running_median)
    return cycle_panel(study.panel_title(run, label), lines, robust_axis(label, lines, log=True))
