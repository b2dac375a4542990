"""The stability map: which rule survives which setting, for how long, and at what log-loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from orchestrator.charts.chart import Axis, Cells, Chart, Line, Panel, numbers
from orchestrator.config.schema import ArmConfig
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, Section, number
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding, Statement, holds, judged


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


def stability(study: Study) -> Section | None:
    """Maps, edges and a table; None if no run sustains settings."""
    found = [(run, sustained_results(study, run)) for run in study.shown if run.sustained]
    if not found:
        return None
    families = list(dict.fromkeys(one.family for _, results in found for one in results))
    return Section(
        key="stability",
        title="Stability map",
        claim="The new algorithm trains stably with settings under which production's vectors "
        "blow up.",
        findings=tuple(_finding(run, results) for run, results in found),
        charts=(_edge_chart(study, found, families), _map_chart(study, found, families)),
        tables=(_table(found, families),),
        note="Each setting is kept for the entire run and trains its own model. A cycle that "
        "diverges is lost, and the next one starts from the last good model. The edge of stability "
        "is the largest eta0 of the grid at which, and below which, no cycle was lost. The paper "
        "shows no such map: the claim is its reason for the algorithm, in our words.",
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


def edges(results: Sequence[SustainedResult], family: str) -> dict[float, float]:
    """The edge of stability by beta, over every alpha of the grid; 0 if nothing is stable."""
    mine = [one for one in results if one.family == family]
    found = {}
    for beta in sorted({one.beta for one in mine}):
        found[beta] = 0.0
        for eta0 in sorted({one.eta0 for one in mine}):
            if not all(one.stable for one in mine if (one.beta, one.eta0) == (beta, eta0)):
                break
            found[beta] = eta0
    return found


def _compared_families(run: Run) -> tuple[str, str] | None:
    """The families that represent production and the paper's rule."""
    rules = {arm.family: arm.rule.name for arm in run.config.arms if arm.family}
    base = next((f for f, rule in rules.items() if rule == "l2"), None)
    ours = next((f for f, rule in rules.items() if rule == "entropic"), None)
    return (base, ours) if base and ours else None


def _finding(run: Run, results: Sequence[SustainedResult]) -> Finding:
    compared = _compared_families(run)
    if compared is None:
        return Finding("This run does not have both an l2 and an entropic arm.", None, run.name)
    base, ours = (edges(results, family) for family in compared)
    ours = {beta: ours.get(beta, 0.0) for beta in base}
    by_beta = "; ".join(f"beta {beta:g}: {base[beta]:g} and {ours[beta]:g}" for beta in base)
    saved = [
        one for one in results
        if one.family == compared[1] and one.stable and any(
            not other.stable and _setting(other) == _setting(one)
            for other in results if other.family == compared[0]
        )
    ]  # fmt: skip
    text = (
        f"The largest stable eta0 of {compared[0]} and of {compared[1]}, by beta: {by_beta}. "
        f"{len(saved)} of the settings that {compared[0]} loses are stable under {compared[1]}."
    )
    return judged(
        text,
        run.name,
        Statement(
            f"{compared[1]}'s edge is not lower for any beta",
            holds(all(ours[b] >= base[b] for b in base)),
        ),
        Statement(
            f"{compared[1]}'s edge is higher for some beta",
            holds(any(ours[b] > base[b] for b in base)),
        ),
    )


def _setting(result: SustainedResult) -> tuple[float, float, float]:
    return result.eta0, result.alpha, result.beta


Found = Sequence[tuple[Run, list[SustainedResult]]]


def _edge_chart(study: Study, found: Found, families: Sequence[str]) -> Chart:
    etas = sorted({one.eta0 for _, results in found for one in results})
    low, high = etas[0] / 2, etas[-1] * 1.5
    panels = []
    for run, results in found:
        lines = []
        for family in families:
            edge = edges(results, family)
            # Draws lines that coincide a little apart.
            shift = 1.02 ** (families.index(family) - len(families) / 2)
            y = numbers([max(eta0, low) * shift for eta0 in edge.values()])
            lines.append(Line(family, families.index(family), numbers(list(edge)), y, dots=True))
        betas = [beta for line in lines for beta in line.x]
        x = Axis("beta", min(betas) - 0.03, max(betas) + 0.03)
        panels.append(
            Panel(
                study.panel_title(run),
                x,
                Axis("largest stable eta0", low, high, log=True),
                tuple(lines),
            )
        )
    return Chart(
        "edge-of-stability",
        "The edge of stability of each rule",
        "A rule lost no cycle below its line. A line at the bottom means that nothing was stable.",
        tuple(panels),
        wide=False,
    )


def _map_chart(study: Study, found: Found, families: Sequence[str]) -> Chart:
    alphas = sorted({one.alpha for _, results in found for one in results})
    panels = [
        _map(study.panel_title(run, _panel_name(family, alpha, alphas)), mine)
        for run, results in found
        for family in families
        for alpha in alphas
        if (mine := [one for one in results if (one.family, one.alpha) == (family, alpha)])
    ]
    return Chart(
        "stability-map",
        "Share of cycles lost by each sustained setting",
        "Darker cells lost more of their cycles.",
        tuple(panels),
        wide=False,
    )


def _panel_name(family: str, alpha: float, alphas: Sequence[float]) -> str:
    return family if len(alphas) == 1 else f"{family}, alpha {alpha:g}"


def _map(title: str, results: Sequence[SustainedResult]) -> Panel:
    xs, ys = (sorted({getattr(one, name) for one in results}) for name in ("eta0", "beta"))
    x_edges, y_edges = _borders(np.log(xs)), _borders(np.array(ys))
    x_edges = np.exp(x_edges)
    rows, shades, texts = [], [], []
    for one in results:
        i, j = xs.index(one.eta0), ys.index(one.beta)
        rows.append((x_edges[i], x_edges[i + 1], y_edges[j], y_edges[j + 1]))
        shades.append(one.lost)
        served = f"served log-loss {one.served:.4f}" if one.served == one.served else "never served"
        texts.append(
            f"eta0 {one.eta0:g}, alpha {one.alpha:g}, beta {one.beta:g}: survived "
            f"{one.survived} of {one.cycles} cycles, lost {one.lost:.0%} in total; {served}"
        )
    cells = Cells("share lost", numbers(rows), numbers(shades), tuple(texts))
    x = Axis("eta0", float(x_edges[0]), float(x_edges[-1]), log=True)
    return Panel(title, x, Axis("beta", float(y_edges[0]), float(y_edges[-1])), (cells,))


def _borders(centres: np.ndarray) -> np.ndarray:
    """Borders half-way between centres; a single centre gets half a unit on each side."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def _table(found: Found, families: Sequence[str]) -> ReportTable:
    """One row per family, with medians over the runs."""
    every = [one for _, results in found for one in results]
    betas = sorted({one.beta for one in every})
    rows = []
    for tone, family in enumerate(families):
        mine = [one for one in every if one.family == family]
        by_run = [edges(results, family) for _, results in found]
        stable = [one for one in mine if one.stable and one.served == one.served]
        best = min(stable, key=lambda one: one.served, default=None)
        rows.append(
            (
                Cell(family, tone=tone),
                *(number(median(edge.get(beta, 0.0) for edge in by_run), "g") for beta in betas),
                number(100 * np.mean([one.stable for one in mine]), ".0f", "%"),
                number(
                    np.median([float(one.survived) for one in mine if not one.stable] or [np.nan]),
                    ".0f",
                ),
                number(best.served if best else None, ".4f"),
                Cell(f"eta0 {best.eta0:g}, beta {best.beta:g}" if best else "-"),
            )
        )
    columns = ("rule", *(f"edge at beta {beta:g}" for beta in betas), "settings without loss",
               "cycles survived by the others", "best served log-loss", "with setting")  # fmt: skip
    return ReportTable("The edge of stability (largest stable eta0)", columns, tuple(rows),
                "Edges and cycles survived: medians over the runs.")  # fmt: skip
