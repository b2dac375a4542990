"""Entropic against Euclidean dual ascent: the paper's last comparison."""

from orchestrator.charts.chart import Chart, Level, Mark, Panel
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.curves import (
    arm_curves,
    curve,
    cycle_panel,
    robust_axis,
    smoothing_text,
)
from orchestrator.report.sections.lift import acclimation
from orchestrator.report.sections.norms import ratio_interval, ratio_text
from orchestrator.report.study import Pair, Study, running_median, window_for
from orchestrator.report.verdict import Finding, Statement, above, below, judged, lift_text

RULES = ("entropic", "euclidean")
NORMS = (("max_inf", "largest ‖v‖∞"), ("mean_top10_inf", "mean of the 10 largest ‖v‖∞"))


def entropic_vs_euclidean(study: Study) -> Section | None:
    """Lift, largest norm and mean of the ten largest; None if no run has both rules."""
    found = [(run, pair) for run in study.shown if (pair := best_pair(study, run))]
    if not found:
        return None
    return Section(
        key="entropic-euclidean",
        title="Entropic against Euclidean",
        claim="Entropic dual ascent has a better log-loss than Euclidean ascent with its best "
        "step size, and keeps vector norms lower.",
        findings=tuple(_finding(pair) for _, pair in found),
        charts=(
            Chart(
                "entropic-euclidean",
                "Entropic against the best Euclidean arm",
                "Lift above zero: entropic is better. "
                + smoothing_text(study, "mean (of norms: median)"),
                tuple(panel for run, pair in found for panel in _panels(study, run, pair)),
                wide=False,
            ),
        ),
        tables=(_sweep(study, [run for run, _ in found]),),
        note="If several arms have the same rule, the one with the lowest mean served log-loss "
        "represents it: the arms of the config are the sweep. This hindsight favours both rules.",
    )


def best_pair(study: Study, run: Run) -> Pair | None:
    """The best entropic arm against the best Euclidean one."""
    best = [_best(study, run, rule) for rule in RULES]
    if best[0] is None or best[1] is None:
        return None
    pair = study.pair(run, best[0], best[1])
    return pair if len(pair.ours) else None


def _best(study: Study, run: Run, rule: str) -> str | None:
    arms = [arm.name for arm in run.config.arms if arm.rule.name == rule]
    losses = {arm: study.of(run, arm)["served_logloss"].mean() for arm in arms}
    known = {arm: loss for arm, loss in losses.items() if loss == loss}
    return min(known, key=lambda arm: known[arm]) if known else None


def _finding(pair: Pair) -> Finding:
    gain = pair.mean_lift()
    ratios = [ratio_interval(pair, column) for column, _ in NORMS]
    text = (
        f"{pair.arm} has a lift of {lift_text(gain)} over {pair.baseline}; its largest ‖v‖∞ is "
        f"{ratio_text(ratios[0])} and the mean of its ten largest {ratio_text(ratios[1])} that of "
        f"{pair.baseline}."
    )
    smaller = [
        Statement(f"its {label} is lower", below(one))
        for one, (_, label) in zip(ratios, NORMS, strict=True)
    ]
    return judged(text, pair.run, Statement("entropic's log-loss is better", above(gain)), *smaller)


def _panels(study: Study, run: Run, pair: Pair) -> list[Panel]:
    window = window_for(run.cycles)
    gain = curve(
        f"{pair.arm} over {pair.baseline}", study.arms.index(pair.arm), pair.lift(), window
    )
    marks: list[Mark] = [*acclimation(pair), Level("", 0.0)]
    panels = [
        cycle_panel(
            study.panel_title(run, "log-loss lift"),
            gain,
            robust_axis("lift, %", gain, include=[0]),
            marks,
        )
    ]
    for column, label in NORMS:
        lines = arm_curves(study, run, column, (pair.arm, pair.baseline), running_median)
        axis = robust_axis(label, lines, log=True)
        panels.append(cycle_panel(study.panel_title(run, label), lines, axis))
    return panels


def _sweep(study: Study, runs: list[Run]) -> ReportTable:
    rows = []
    for run in runs:
        for arm in (arm for arm in run.config.arms if arm.rule.name in RULES):
            frame = study.of(run, arm.name)
            steps = frame["dual_step"].dropna()
            chosen = arm.name in (_best(study, run, rule) for rule in RULES)
            rows.append(
                (
                    Cell(run.name),
                    Cell(arm.name, tone=study.arms.index(arm.name)),
                    Cell(arm.rule.name),
                    number(steps.median() if len(steps) else None),
                    number(frame["served_logloss"].mean(), ".5f"),
                    number(frame["max_inf"].median(), ".3f"),
                    number(frame["mean_top10_inf"].median(), ".3f"),
                    Cell("best of its rule" if chosen else "", float(chosen)),
                )
            )
    columns = ("run", "arm", "rule", "champion's median dual step", "mean served log-loss",
               "median largest ‖v‖∞", "median of 10 largest", "")  # fmt: skip
    return ReportTable("Sweep over arms", columns, tuple(rows))
