"""The paper's bound rho0 as a function of N, and the search for its multiple k."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from divergence.bound import VISIBLE, rho0, smallest_sufficient
from orchestrator.charts.chart import Axis, Chart, Dots, Level, Line, Panel, numbers, span_of
from orchestrator.config.ranges import Choice, absolute
from orchestrator.config.rules import searched
from orchestrator.config.schema import ArmConfig
from orchestrator.report.length import vector_length
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.sections.certificates import certificate_findings, certificate_tables
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding, holds

LENGTHS = np.unique(np.geomspace(2, 1000, 120).round()).astype(int)


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """The arms of a run that differ in k only: served log-losses by k, on the same chunks."""

    run: str
    rule: str
    arms: Mapping[float, str]
    losses: Mapping[float, list[float]]
    chosen: float | None


def bound(study: Study) -> Section:
    """The curve of rho0, and a search for k for each run whose arms differ in k."""
    searches = [one for run in study.shown for one in searches_of(study, run)]
    return Section(
        key="bound",
        title="The bound ρ₀ and its multiple k",
        claim="ρ₀ follows from the vectors' length N. It is too tight: the smallest k beyond "
        "which log-loss no longer visibly improves is larger than 1.",
        findings=(
            *map(_finding, searches),
            *(_distance_finding(study, run) for run in study.shown),
            *(one for run in study.shown for one in certificate_findings(run)),
        ),
        charts=(_curve(study), *([_search_chart(searches)] if searches else [])),
        tables=(*([_table(study, searches)] if searches else []), *certificate_tables(study)),
        note="A gain is visible if, chunk by chunk, it is more than a thousandth of the log-loss "
        "and more than two standard errors. The search also tries k below 1: if champions' mean "
        "squares are far below ρ₀, only a tighter bound has an effect."
        + ("" if searches else " No run here has arms that differ in k, so there is no search."),
    )


def searches_of(study: Study, run: Run) -> list[Search]:
    """One search for each group of two or more arms that differ in a fixed k only."""
    length = vector_length(run.config)
    if length is None:
        return []
    found: dict[str, dict[float, ArmConfig]] = {}
    for arm in run.config.arms:
        given = getattr(arm.rule, "rho", None) or run.config.search.ranges.rho
        span = absolute(given, rho0(length))
        if "rho" in searched(arm.rule) and isinstance(span, Choice) and len(span.choice) == 1:
            k = float(f"{span.choice[0] / rho0(length):.4g}")
            same_but_k = arm.model_dump_json(exclude={"name": True, "rule": {"rho"}})
            found.setdefault(same_but_k, {}).setdefault(k, arm)
    return [_search(study, run, arms) for arms in found.values() if len(arms) > 1]


def _search(study: Study, run: Run, arms: Mapping[float, ArmConfig]) -> Search:
    series = {k: study.of(run, arm.name)["served_logloss"].dropna() for k, arm in arms.items()}
    shared = set.intersection(*(set(one.index) for one in series.values()))
    losses = {k: one.loc[sorted(shared)].tolist() for k, one in series.items()}
    chosen = smallest_sufficient(losses, VISIBLE) if len(shared) > 1 else None
    rule = next(iter(arms.values())).rule.name
    return Search(run.name, rule, {k: arm.name for k, arm in arms.items()}, losses, chosen)


def _finding(search: Search) -> Finding:
    ks = sorted(search.arms)
    tried = f"Of k = {', '.join(f'{k:g}' for k in ks)} with {search.rule}"
    if search.chosen is None:
        return Finding(
            f"{tried}: the arms share too few cycles to choose one.", holds(None), search.run
        )
    chunks = len(search.losses[search.chosen])
    chosen = f"{search.chosen:g}" + " (the smallest that was tried)" * (search.chosen == ks[0])
    text = f"{tried}, the smallest that suffices is {chosen}, on {chunks} shared cycles."
    decided = search.chosen > 1 if min(ks) <= 1 < max(ks) else None
    return Finding(text, holds(decided), search.run)


def _distance_finding(study: Study, run: Run) -> Finding:
    """How close the champions come to the bound."""
    length, arm = vector_length(run.config), study.baseline_of(run)
    if run.config.trainer.kind != "offset":
        text = f"The trainer is {run.config.trainer.kind}: ρ₀ is for OFFSET's vectors."
        return Finding(text, None, run.name)
    size = study.of(run, arm)["max_msqr"].median()
    if length is None or size != size:
        return Finding("The length or the norms of the vectors are not known.", None, run.name)
    text = (
        f"With N = {length}, ρ₀ is {rho0(length):.3g}. The largest mean square of {arm}'s champion "
        f"is {size:.3g} (median over cycles), which is {size / rho0(length):.2g} times ρ₀."
    )
    return Finding(text, None, run.name)


def _curve(study: Study) -> Chart:
    marks: list[Line | Dots] = [
        Line("ρ₀", "quiet", numbers(LENGTHS), numbers([rho0(int(n)) for n in LENGTHS]))
    ]
    runs = {run.name: n for run in study.runs if (n := vector_length(run.config)) is not None}
    if runs:
        bounds = numbers([rho0(n) for n in runs.values()])
        texts = tuple(f"{run}: N = {n}, ρ₀ = {rho0(n):.4g}" for run, n in runs.items())
        marks.append(Dots("runs", "accent", numbers(list(runs.values())), bounds, texts))
    low, high = span_of([mark.y for mark in marks], log=True)
    panel = Panel(
        "ρ₀ = 288 / (24√N + N^¾ √(48 + √N) + N)",
        Axis("N, entries of an ad's vector", 2, 1000, log=True),
        Axis("ρ₀", low, high, log=True),
        tuple(marks),
    )
    return Chart("rho0", "The heuristic bound ρ₀", "Dots: the models of these runs.", (panel,))


def _search_chart(searches: list[Search]) -> Chart:
    return Chart(
        "k-search",
        "The search for k",
        "Mean served log-loss by k, where the bound is k·ρ₀. The vertical line marks the chosen k.",
        tuple(_search_panel(search) for search in searches),
        wide=False,
    )


def _search_panel(search: Search) -> Panel:
    ks = sorted(search.losses)
    means = [float(np.mean(search.losses[k])) if search.losses[k] else np.nan for k in ks]
    low, high = span_of([means])
    line = Line(search.rule, 1, numbers(ks), numbers(means), dots=True)
    x_low, x_high = span_of([ks], log=True)
    chosen = [] if search.chosen is None else [Level("chosen", search.chosen, along="y")]
    return Panel(
        f"{search.run}: {search.rule}",
        Axis("k", x_low, x_high, log=True),
        Axis("mean served log-loss", low, high),
        (line, *chosen),
    )


def _table(study: Study, searches: list[Search]) -> ReportTable:
    rows = []
    for search in searches:
        run = next(run for run in study.runs if run.name == search.run)
        for k in sorted(search.arms):
            frame = study.of(run, search.arms[k])
            rows.append(
                (
                    Cell(search.run),
                    Cell(search.arms[k], tone=study.arms.index(search.arms[k])),
                    number(k),
                    number(np.mean(search.losses[k]) if search.losses[k] else None, ".5f"),
                    number(100 * frame["retained_fraction"].mean(), ".2f", "%"),
                    number(frame["max_msqr"].median(), ".3f"),
                    Cell("chosen" if k == search.chosen else "", float(k == search.chosen)),
                )
            )
    columns = ("run", "arm", "k", "mean served log-loss", "retained", "largest mean square", "")
    return ReportTable("The search for k", columns, tuple(rows))
