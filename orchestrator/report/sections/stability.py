"""The stability map: which rule survives which setting, for how long, and at what log-loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from orchestrator.charts.chart import Axis, Cells, Chart, Line, Numbers, Panel, numbers
from orchestrator.config.schema import ArmConfig
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding, Statement, holds, judged

Curve = tuple[float, float]
"""alpha and beta of settings that differ in their step size only."""


@dataclass(frozen=True, slots=True)
class SustainedResult:
    """What happened to one setting that an arm kept for the entire run."""

    family: str
    eta0: float
    alpha: float
    beta: float
    survived: int
    """Cycles before the first one that diverged."""
    cycles: int
    lost: float
    """The share of cycles that diverged; after each, the arm continues from its last good model."""
    served: float
    """Mean log-loss of the served model over the second half; NaN if no model was served."""

    @property
    def stable(self) -> bool:
        """Whether no cycle diverged."""
        return self.survived == self.cycles


@dataclass(frozen=True, slots=True)
class Grid:
    """The axes of the map: eta0 and beta or, if the settings have several alphas, others.

    Then they are the first step, eta0 / alpha, and alpha, with a map for each beta: the first step
    alone decides most settings, and an axis of eta0 would hide everything else.
    """

    alphas: tuple[float, ...]
    betas: tuple[float, ...]

    @property
    def by_alpha(self) -> bool:
        """Whether settings have several alphas."""
        return len(self.alphas) > 1 and min(self.alphas) > 0

    @property
    def axes(self) -> tuple[str, str]:
        """The names of the step size, whose largest stable value is the edge, and of the other."""
        return ("eta0 / alpha", "alpha") if self.by_alpha else ("eta0", "beta")

    def place(self, one: SustainedResult) -> tuple[float, float]:
        """Where a setting lies on the two axes."""
        if self.by_alpha:
            return float(f"{one.eta0 / one.alpha:.6g}"), one.alpha
        return one.eta0, one.beta

    def panels(self) -> list[tuple[str, list[Curve]]]:
        """The lines of settings that differ in the step size only, by panel."""
        if self.by_alpha:
            return [(f"beta {b:g}", [(a, b) for a in self.alphas]) for b in self.betas]
        return [("", [(a, b) for a in self.alphas for b in self.betas])]

    def name(self, line: Curve) -> str:
        """Such as "beta 0.5", or "alpha 3, beta 0.5" if there are several alphas."""
        return f"alpha {line[0]:g}, beta {line[1]:g}" if self.by_alpha else f"beta {line[1]:g}"


def stability(study: Study) -> Section | None:
    """Maps, edges and a table; None if no run sustains settings."""
    found = [(run, sustained_results(study, run)) for run in study.shown if run.sustained]
    if not found:
        return None
    families = list(dict.fromkeys(one.family for _, results in found for one in results))
    grid = grid_of([one for _, results in found for one in results])
    step = grid.axes[0]
    return Section(
        key="stability",
        title="Stability map",
        claim="The new algorithm trains stably with settings under which production's vectors "
        "blow up.",
        findings=tuple(_finding(grid, run, results) for run, results in found),
        charts=(
            _edge_chart(grid, study, found, families),
            _map_chart(grid, study, found, families),
        ),
        tables=(_table(grid, found, families),),
        note="Each setting is kept for the entire run and trains its own model. A cycle that "
        "diverges is lost, and the next one starts from the last good model. The edge of stability "
        f"is the largest {step} of the grid at which, and below which, no cycle was lost. "
        + ("A vector's first step is eta0 / alpha times its gradient. " if grid.by_alpha else "")
        + "The paper shows no such map: the claim is its reason for the algorithm, in our words.",
    )


def sustained_results(study: Study, run: Run) -> list[SustainedResult]:
    """One result for each arm of a sustained run that has records."""
    return [_result(study, run, arm) for arm in run.config.arms if run.records.get(arm.name)]


def _result(study: Study, run: Run, arm: ArmConfig) -> SustainedResult:
    frame = study.of(run, arm.name)
    decided = frame["retained_fraction"].dropna()  # skips late, failed and empty cycles
    fine = decided.to_numpy(dtype=float) == 1.0
    survived = len(fine) if fine.all() else int(np.argmin(fine))
    eta0, alpha, beta = (getattr(arm.ranges, name).choice[0] for name in ("eta0", "alpha", "beta"))
    served = frame["served_logloss"].iloc[len(frame) // 2 :].mean()
    lost = float(np.mean(~fine)) if len(fine) else 0.0
    setting = arm.family or "", eta0, alpha, beta
    return SustainedResult(*setting, survived, len(fine), lost, float(served))


def grid_of(results: Sequence[SustainedResult]) -> Grid:
    """The grid that these settings span."""
    return Grid(*(tuple(sorted({getattr(r, name) for r in results})) for name in ("alpha", "beta")))


def edges(grid: Grid, results: Sequence[SustainedResult], family: str) -> dict[Curve, float]:
    """The edge of stability by alpha and beta; 0 if nothing is stable."""
    found = {}
    for line in (line for _, lines in grid.panels() for line in lines):
        mine = [one for one in results if (one.family, one.alpha, one.beta) == (family, *line)]
        if mine:
            found[line] = 0.0
        for one in sorted(mine, key=lambda one: one.eta0):
            if not one.stable:
                break
            found[line] = grid.place(one)[0]
    return found


def _compared_families(run: Run) -> tuple[str, str] | None:
    """The families that represent production and the paper's rule."""
    rules = {arm.family: arm.rule.name for arm in run.config.arms if arm.family}
    base = next((f for f, rule in rules.items() if rule == "l2"), None)
    ours = next((f for f, rule in rules.items() if rule == "entropic"), None)
    return (base, ours) if base and ours else None


def _finding(grid: Grid, run: Run, results: Sequence[SustainedResult]) -> Finding:
    compared = _compared_families(run)
    if compared is None:
        return Finding("This run does not have both an l2 and an entropic arm.", None, run.name)
    base, ours = (edges(grid, results, family) for family in compared)
    ours = {line: ours.get(line, 0.0) for line in base}
    listed = "; ".join(f"{grid.name(line)}: {base[line]:g} and {ours[line]:g}" for line in base)
    across = "alpha and beta" if grid.by_alpha else "beta"
    saved = [
        one for one in results
        if one.family == compared[1] and one.stable and any(
            not other.stable and _setting(other) == _setting(one)
            for other in results if other.family == compared[0]
        )
    ]  # fmt: skip
    text = (
        f"The largest stable {grid.axes[0]} of {compared[0]} and of {compared[1]}, by {across}: "
        f"{listed}. "
        f"{len(saved)} of the settings that {compared[0]} loses are stable under {compared[1]}."
    )
    return judged(
        text,
        run.name,
        Statement(
            f"{compared[1]}'s edge is not lower for any {across}",
            holds(all(ours[b] >= base[b] for b in base)),
        ),
        Statement(
            f"{compared[1]}'s edge is higher for some {across}",
            holds(any(ours[b] > base[b] for b in base)),
        ),
    )


def _setting(result: SustainedResult) -> tuple[float, float, float]:
    return result.eta0, result.alpha, result.beta


Found = Sequence[tuple[Run, list[SustainedResult]]]


def _edge_chart(grid: Grid, study: Study, found: Found, families: Sequence[str]) -> Chart:
    step, across = grid.axes
    steps = sorted({grid.place(one)[0] for _, results in found for one in results})
    low, high = steps[0] / 2, steps[-1] * 1.5
    panels = []
    for run, results in found:
        by_family = {family: edges(grid, results, family) for family in families}
        for title, lines in grid.panels():
            marks = []
            for tone, (family, edge) in enumerate(by_family.items()):
                there = [line for line in lines if line in edge]
                x = numbers([line[0 if grid.by_alpha else 1] for line in there])
                # Draws lines that coincide a little apart.
                shift = 1.02 ** (tone - len(families) / 2)
                y = numbers([max(edge[line], low) * shift for line in there])
                marks.append(Line(family, tone, x, y, dots=True))
            spots = numbers([spot for mark in marks for spot in mark.x])
            panels.append(
                Panel(
                    study.panel_title(run, title),
                    _across_axis(grid, across, spots),
                    Axis(f"largest stable {step}", low, high, log=True),
                    tuple(marks),
                )
            )
    return Chart(
        "edge-of-stability",
        "The edge of stability of each rule",
        "A rule lost no cycle below its line. A line at the bottom means that nothing was stable.",
        tuple(panels),
        wide=False,
    )


def _across_axis(grid: Grid, name: str, spots: Numbers) -> Axis:
    if grid.by_alpha:
        return Axis(name, spots.min() / 1.3, spots.max() * 1.3, log=True)
    return Axis(name, spots.min() - 0.03, spots.max() + 0.03)


def _map_chart(grid: Grid, study: Study, found: Found, families: Sequence[str]) -> Chart:
    panels = [
        _map(grid, study.panel_title(run, f"{family}, {title}" if title else family), mine)
        for run, results in found
        for family in families
        for title, lines in grid.panels()
        if (mine := [one for one in results
                     if one.family == family and (one.alpha, one.beta) in lines])
    ]  # fmt: skip
    return Chart(
        "stability-map",
        "Share of cycles lost by each sustained setting",
        "Darker cells lost more of their cycles.",
        tuple(panels),
        wide=False,
    )


def _map(grid: Grid, title: str, results: Sequence[SustainedResult]) -> Panel:
    xs, ys = (sorted({grid.place(one)[axis] for one in results}) for axis in (0, 1))
    x_edges = np.exp(_borders(np.log(xs)))
    y_edges = np.exp(_borders(np.log(ys))) if grid.by_alpha else _borders(np.array(ys))
    rows, shades, texts = [], [], []
    for one in results:
        x, y = grid.place(one)
        i, j = xs.index(x), ys.index(y)
        rows.append((x_edges[i], x_edges[i + 1], y_edges[j], y_edges[j + 1]))
        shades.append(one.lost)
        served = f"served log-loss {one.served:.4f}" if one.served == one.served else "never served"
        texts.append(
            f"eta0 {one.eta0:g}, alpha {one.alpha:g}, beta {one.beta:g}: survived "
            f"{one.survived} of {one.cycles} cycles, lost {one.lost:.0%} in total; {served}"
        )
    cells = Cells("share lost", numbers(rows), numbers(shades), tuple(texts))
    step, across = grid.axes
    return Panel(
        title,
        Axis(step, float(x_edges[0]), float(x_edges[-1]), log=True),
        Axis(across, float(y_edges[0]), float(y_edges[-1]), log=grid.by_alpha),
        (cells,),
    )


def _borders(centres: np.ndarray) -> np.ndarray:
    """Borders half-way between centres; a single centre gets half a unit on each side."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _table(grid: Grid, found: Found, families: Sequence[str]) -> ReportTable:
    """One row per family, with medians over the runs."""
    every = [one for _, results in found for one in results]
    every_line = [line for _, lines in grid.panels() for line in lines]
    rows = []
    for tone, family in enumerate(families):
        mine = [one for one in every if one.family == family]
        by_run = [edges(grid, results, family) for _, results in found]
        stable = [one for one in mine if one.stable and one.served == one.served]
        best = min(stable, key=lambda one: one.served, default=None)
        rows.append(
            (
                Cell(family, tone=tone),
                *(
                    number(median(edge.get(line, 0.0) for edge in by_run), "g")
                    for line in every_line
                ),
                number(100 * np.mean([one.stable for one in mine]), ".0f", "%"),
                number(
                    np.median([float(one.survived) for one in mine if not one.stable] or [np.nan]),
                    ".0f",
                ),
                number(best.served if best else None, ".4f"),
                Cell(f"eta0 {best.eta0:g}, {grid.name((best.alpha, best.beta))}" if best else "-"),
            )
        )
    columns = ("rule", *(f"edge at {grid.name(line)}" for line in every_line),
               "settings without loss", "cycles survived by the others", "best served log-loss",
               "with setting")  # fmt: skip
    title = f"The edge of stability (largest stable {grid.axes[0]})"
    note = "Edges and cycles survived: medians over the runs."
    return ReportTable(title, columns, tuple(rows), note)
