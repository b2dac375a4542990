"""Log-loss lift over the baseline: the paper's third result."""

from orchestrator.charts.chart import Chart, Level, Line, Mark, Panel, Span
from orchestrator.report.load import Run
from orchestrator.report.section import Section
from orchestrator.report.sections.curves import curve, cycle_panel, robust_axis, smoothing_text
from orchestrator.report.study import Pair, Study, running_mean, window_for
from orchestrator.report.verdict import Finding, Statement, above, holds, judged, lift_text

CONSISTENT = 0.9
"""The share of the smoothed curve that must lie above zero for "consistently"."""


def lift(study: Study) -> Section:
    """Lift per cycle and smoothed, with the acclimation marked."""
    pairs = [pair for run in study.shown if (pair := study.main_pair(run))]
    panels = [panel for run in study.shown if (panel := _panel(study, run))]
    return Section(
        key="lift",
        title="Log-loss lift",
        claim="The new algorithm starts from the production model. After about a day of "
        "acclimation it consistently has the better log-loss.",
        findings=tuple(_finding(pair) for pair in pairs),
        charts=(_chart(study, panels),),
        note="Lift is how much lower the log-loss of the served champion is than the baseline's, "
        "in percent of the baseline's. Each champion is scored on a chunk before any instance "
        f"trains on it. We read “consistently” as {CONSISTENT:.0%} of the smoothed curve above "
        "zero. If an arm started from the baseline's model, its first day (96 cycles), or its "
        "first quarter if that is shorter, is shaded and does not count.",
        compares_main_arms=True,
    )


def acclimation(pair: Pair) -> list[Span]:
    """A mark for the acclimation of a pair, if it has one."""
    span = pair.acclimation_span()
    return [Span("acclimation", *span)] if span else []


def _chart(study: Study, panels: list[Panel]) -> Chart:
    return Chart(
        "lift",
        "Log-loss lift of the served champion over the baseline's",
        f"Above zero, the dashed line, is better than the baseline. {smoothing_text(study)}",
        tuple(panels),
    )


def _finding(pair: Pair) -> Finding:
    series = pair.settled(pair.lift())
    mean = pair.mean_lift()
    curve_above = running_mean(series, window_for(len(series))).dropna() > 0
    share = float(curve_above.mean()) if len(curve_above) else None
    consistent = share >= CONSISTENT if share is not None and mean.known else None
    skipped = pair.acclimation
    after = f" after {skipped} cycle{'s' * (skipped > 1)} of acclimation" if skipped else ""
    steady = "" if share is None else f"; the smoothed curve is above zero {share:.0%} of the time"
    text = f"The lift of {pair.arm} over {pair.baseline} is {lift_text(mean)}{after}{steady}."
    return judged(
        text,
        pair.run,
        Statement("the mean lift is above zero", above(mean)),
        Statement("the lift is consistently above zero", holds(consistent)),
    )


def _panel(study: Study, run: Run) -> Panel | None:
    base = study.baseline_of(run)
    pairs = [study.pair(run, arm, base) for arm in run.records if arm != base]
    pairs = [pair for pair in pairs if pair.lift().notna().any()]
    if not pairs:
        return None
    lines: list[Line] = []
    marks: list[Mark] = [Level("", 0.0)]
    for pair in pairs:
        series = pair.lift()
        lines += curve(pair.arm, study.arms.index(pair.arm), series, window_for(run.cycles))
        marks += [span for span in acclimation(pair) if span not in marks]
    # Single cycles are noisy: the axis fits the smoothed curves and most of the raw points.
    axis = robust_axis("lift, %", lines, include=[0.0])
    return cycle_panel(study.panel_title(run), lines, axis, marks)
