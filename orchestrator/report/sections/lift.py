"""Log-loss lift over the baseline: the paper's third result."""

from orchestrator.charts.chart import Axis, Chart, Level, Line, Mark, Panel, Span, span_of
from orchestrator.report.interval import mean_interval
from orchestrator.report.load import Run
from orchestrator.report.section import Section
from orchestrator.report.sections.curves import curve, cycle_panel, smoothing_text
from orchestrator.report.study import Pair, Study, smoothed, window_for
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
        claim="After about a day of acclimation to the production model it began with, the new "
        "algorithm consistently has the better log-loss.",
        findings=tuple(_finding(pair) for pair in pairs),
        charts=(_chart(study, panels),),
        note="Lift is how much lower the log-loss of the served champion is than the baseline's, "
        "in percent of the latter: each is scored on a chunk before anything is trained on it. "
        f"“Consistently” is read as {CONSISTENT:.0%} of the smoothed curve above zero. Where an "
        "arm began with the baseline's model, its first day (96 cycles), or first quarter where "
        "that is less, is shaded and does not count.",
        compares_main_arms=True,
    )


def acclimation(pair: Pair) -> list[Span]:
    """The mark of a pair's acclimation, if it has one."""
    span = pair.acclimated()
    return [Span("acclimation", *span)] if span else []


def _chart(study: Study, panels: list[Panel]) -> Chart:
    return Chart(
        "lift",
        "Log-loss lift of the served champion over the baseline's",
        f"Above zero is better. {smoothing_text(study)}",
        tuple(panels),
    )


def _finding(pair: Pair) -> Finding:
    series = pair.settled(pair.lift())
    mean = mean_interval(series)
    curve_above = smoothed(series, window_for(len(series))).dropna() > 0
    share = float(curve_above.mean()) if len(curve_above) else None
    consistent = share >= CONSISTENT if share is not None and mean.known else None
    after = f" after {pair.acclimation} cycles of acclimation" if pair.acclimation else ""
    told = "" if share is None else f"; its smoothed curve is above zero {share:.0%} of the time"
    text = f"The lift of {pair.arm} over {pair.baseline} is {lift_text(mean)}{after}{told}."
    return judged(
        text,
        pair.run,
        Statement("the mean lift is above zero", above(mean)),
        Statement("it is so consistently", holds(consistent)),
    )


def _panel(study: Study, run: Run) -> Panel | None:
    base = study.baseline_of(run)
    pairs = [study.pair(run, arm, base) for arm in run.records if arm != base]
    pairs = [pair for pair in pairs if pair.lift().notna().any()]
    if not pairs:
        return None
    lines: list[Line] = []
    marks: list[Mark] = [Level(f"as {base}", 0.0)]
    for pair in pairs:
        series = pair.lift()
        lines += curve(pair.arm, study.arms.index(pair.arm), series, window_for(run.cycles))
        marks += [span for span in acclimation(pair) if span not in marks]
    # Single cycles are noisy: the scale is that of the smoothed curves and most of the raw ones.
    low, high = span_of([line.y for line in lines], include=[0.0])
    return cycle_panel(study.titled(run), lines, Axis("lift, %", low, high), marks)
