"""The regime map: where divergence costs instances and log-loss, and where these runs lie on it."""

from orchestrator.config.schema import LineagesSelect
from orchestrator.report.load import Run
from orchestrator.report.regime.chart import Placed, map_chart
from orchestrator.report.regime.place import Distance, Place, place_of
from orchestrator.report.regime.table import BASELINE, RegimeMap, committed_map, width_text
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding

NAMED = (BASELINE, "entropic")
"""The rules that the line about a run always names."""


def regime(study: Study, known: RegimeMap | None = None) -> Section:
    """The map with these runs on it: the committed one, unless another is given."""
    known = known or committed_map()
    runs = [run for run in study.shown if _is_on_map(run)]
    found = [(run, place_of(study, run, known)) for run in runs]
    placed = [(run.name, place) for run, place in found if place is not None]
    return Section(
        key="regime",
        title="The regime map",
        claim="The paper has no such map. It describes one market, in which production often loses "
        "a fifth of its instances.",
        findings=tuple(Finding(_line(study, run, place, known), None, run.name)
                       for run, place in found),
        charts=(map_chart(known, placed),),
        tables=(_nearest_table(placed, known),) if placed else (),
        note=_note(known),
        in_summary=True,
    )  # fmt: skip


def _is_on_map(run: Run) -> bool:
    """Lines keep their settings: they have no draws, whose width is an axis of the map."""
    lines = isinstance(run.config.search.select, LineagesSelect)
    return run.config.trainer.kind == "offset" and not lines


def _line(study: Study, run: Run, place: Place | None, regime: RegimeMap) -> str:
    """Where a run lies on the map, and what happened in the nearest market of the map."""
    if place is None:
        return "Regime map: too few cycles to tell where this run lies."
    lost = {
        arm: 1 - study.of(run, arm)["retained_fraction"].mean() for arm in _compared(study, run)
    }
    here = ", ".join(f"{arm} {share:.0%}" for arm, share in lost.items() if share == share)
    named = [rule for rule in regime.rules if rule in _rules(run)]
    first, *rest = [f"{rule} {place.market.results[rule].lost:.0%}" for rule in named]
    shares = first.replace(" ", " lost ", 1) + " of its instances"
    others = "".join(f", {one}" for one in rest[:-1]) + (f" and {rest[-1]}" if rest else "")
    return (
        f"Regime map: {place}. {_nearness(place, regime)} {shares}{others}; "
        f"{place.market.served_best()}. Lost here: {here or 'unknown'}."
    )


def _rules(run: Run) -> set[str]:
    return {*NAMED, *(arm.rule.name for arm in run.config.arms)}


def _compared(study: Study, run: Run) -> list[str]:
    arms = [study.baseline_of(run), study.challenger_of(run)]
    return [arm for arm in arms if arm is not None]


def _nearness(place: Place, regime: RegimeMap) -> str:
    if place.distance is Distance.IN:
        return "In simulated markets like this,"
    if place.distance is Distance.BETWEEN:
        return f"In the nearest simulated market ({place.market}),"
    low, high = regime.predictabilities[0], regime.predictabilities[-1]
    narrow, wide = map(width_text, (regime.widths[0], regime.widths[-1]))
    return (
        f"That is outside the map ({low:.0%} to {high:.0%}, {narrow} to {wide}), and its nearest "
        f"market ({place.market}) may tell little: there,"
    )


def _nearest_table(placed: Placed, regime: RegimeMap) -> ReportTable:
    rows = [
        (
            Cell(name),
            Cell(str(place.market)),
            Cell(rule),
            number(100 * (1 - result.lost), ".1f", "%"),
            number(100 * result.useful, ".1f", "%"),
            number(100 * result.heavy, ".0f", "%"),
            number(100 * result.gain, ".1f", "%"),
            number(result.lift, "+.2f", "%") if rule != BASELINE else number(None),
        )
        for name, place in placed
        for rule in regime.rules
        for result in [place.market.results[rule]]
    ]
    columns = ("run", "nearest market", "rule", "retained", "useful", "cycles losing > 20%",
               "served gain", f"lift over {BASELINE}")  # fmt: skip
    return ReportTable("The nearest market of the map", columns, tuple(rows))


def _note(regime: RegimeMap) -> str:
    seeds = f"{len(regime.seeds)} seeds" if len(regime.seeds) > 1 else "one seed"
    return (
        f"The map is part of Holdfast: simulated stormy markets, {seeds}, {regime.size} each, all "
        "rules on the same events and draws (configs/regime.yaml). Predictability is how far the "
        "served log-loss of the best arm lies below that of a constant which knows each chunk's "
        "CTR. Runs and map are measured without the first quarter of their cycles. The width of a "
        "run's draws is the factor by which eta0 and alpha may differ from their middle (the "
        "geometric mean of the two); runs of lines have no draws and are not on the map. Other "
        "things matter too: longer chunks and larger first vectors lose more instances."
    )
