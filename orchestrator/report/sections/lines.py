"""Lines: who came from whom, what the champion's test has cost, and how settings move."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from orchestrator.charts.chart import (
    Axis,
    Cells,
    Chart,
    Dots,
    Level,
    Line,
    Numbers,
    Panel,
    numbers,
    span_of,
)
from orchestrator.journal.record import CycleRecord, LinesRecord, members_of
from orchestrator.report.load import Run
from orchestrator.report.section import Section
from orchestrator.report.study import STEPS, Study, step_names
from orchestrator.report.verdict import Finding
from trainer.setting import Setting

MAX_COLUMNS = 240
"""The most cycles that the family tree shows one by one; beyond that it shows every n-th."""
SHADED = 0.9
"""The share of cells whose shades differ; the worst are all as dark as can be."""


def lines(study: Study) -> Section | None:
    """The family tree, the regret and the settings of lines; None if no run has lines."""
    arms = [(run, arm, _with_lines(run, arm)) for run in study.shown for arm in run.records]
    arms = [entry for entry in arms if entry[2]]
    if not arms:
        return None
    return Section(
        key="lines",
        title="Lines: ranked by what they would have served",
        claim="Not in the paper: every instance continues a model of its own, and the champion is "
        "the line with the lowest discounted served log-loss. It is served alone, or in the mean "
        "of the best few lines.",
        findings=tuple(_finding(*entry) for entry in arms),
        charts=(
            Chart(
                "family-tree",
                "The family tree of the lines",
                "A row for each line. The darker a cell, the more its served log-loss was above "
                "that of the best line in that cycle. A vertical stroke leads from a parent to its "
                "copy, the bold path from the first line to the champion. Dots, where there are "
                "any, mark the lines whose mean is served.",
                tuple(_tree(study, *entry) for entry in arms),
            ),
            Chart(
                "regret",
                "Regret against the best line that was never replaced",
                "Mean difference of served log-loss up to each cycle; below 0 the run served "
                "better than the best fixed setting of the run, chosen in hindsight.",
                tuple(p for entry in arms if (p := _regret(study, *entry)) is not None),
            ),
            Chart(
                "line-settings",
                "The settings of all lines over time",
                "Bold: the median of the lines. Thin: the quartiles. Dots: the champion.",
                tuple(
                    _settings(study, *entry, name)
                    for entry in arms
                    for name in step_names(entry[0])
                ),
                wide=False,
            ),
        ),
        note="Lines that have the setting they started with are the fixed settings of the run. "
        "Where all were replaced, there is no regret to show.",
    )


def _with_lines(run: Run, arm: str) -> list[CycleRecord]:
    return [r for r in run.records[arm] if r.lineages is not None and r.outcomes]


def _state(record: CycleRecord) -> LinesRecord:
    assert record.lineages is not None
    return record.lineages


def _champion(record: CycleRecord) -> int | None:
    return _state(record).state.champion


def _finding(run: Run, arm: str, records: Sequence[CycleRecord]) -> Finding:
    changes = sum(_champion(a) != _champion(b) for a, b in pairwise(records))
    replaced = [one for r in records for one in _state(r).replaced]
    lost = sum(one.was_lost for one in replaced)
    last = records[-1]
    kept = len(_never_replaced(last))
    text = (
        f"{arm}: {len(_state(last).state.lines)} lines, of which {kept} were never replaced. "
        f"The champion changed {changes} times in {len(records)} cycles. "
        f"{len(replaced) - lost} lines were replaced because others served better, and {lost} "
        f"because they were lost. "
        f"The champion is line {_champion(last)}: {_state(last).why}.{_mean_text(records)}"
    )
    return Finding(text, None, run.name)


def _mean_text(records: Sequence[CycleRecord]) -> str:
    """Which lines are served together, and how often that has changed."""
    members = members_of(records[-1])
    if not members:
        return ""
    pairs = [(a, b) for a, b in pairwise(records) if members_of(a)]
    changes = sum(set(members_of(a)) != set(members_of(b)) for a, b in pairs)
    named = ", ".join(map(str, sorted(members)))
    served = [(b.served_logloss, _state(b).served[_champion(a) or 0]) for a, b in pairs]
    both = np.array([one for one in served if None not in one], float).reshape(-1, 2)
    worth = ""
    if len(both):
        mean, alone = both.mean(axis=0)
        more = "lower" if mean <= alone else "higher"
        worth = f" Its log-loss was {abs(1 - mean / alone):.2%} {more} than the champion's alone."
    return (
        f" The served model is the mean of {len(members)} lines: {named}. Its members changed in "
        f"{changes} cycles.{worth}"
    )


def _never_replaced(record: CycleRecord) -> list[int]:
    return [i for i, line in enumerate(_state(record).state.lines) if line.parent is None]


def _tree(study: Study, run: Run, arm: str, records: Sequence[CycleRecord]) -> Panel:
    shown = records[:: -(-len(records) // MAX_COLUMNS)]
    half = (shown[1].cycle - shown[0].cycle) / 2 if len(shown) > 1 else 0.5
    bounds, behind, texts = [], [], []
    for record in shown:
        served = np.array(_state(record).served, float)
        scored = np.flatnonzero(np.isfinite(served))
        for line in scored:
            bounds.append([record.cycle - half, record.cycle + half, line - 0.45, line + 0.45])
            behind.append(served[line] - served[scored].min())
            texts.append(_cell_text(record, int(line), behind[-1]))
    size = len(_state(records[-1]).state.lines)
    x = Axis("cycle", records[0].cycle - 0.5, records[-1].cycle + 0.5, unit="cycle")
    cells = Cells(
        "behind the best line", np.reshape(bounds, (-1, 4)), _shades(behind), tuple(texts)
    )
    copies = [(r.cycle, one.parent, one.line) for r in records for one in _state(r).replaced]
    strokes = np.array([[[c, p], [c, j], [np.nan, np.nan]] for c, p, j in copies]).reshape(-1, 2)
    path = champion_path(records)
    return Panel(
        study.panel_title(run, arm),
        x,
        Axis("line", -0.6, size - 0.4, unit="count"),
        (
            cells,
            Line("copies", "quiet", strokes[:, 0], strokes[:, 1], faint=True),
            Line("the champion's descent", study.arms.index(arm), path[:, 0], path[:, 1]),
            *_member_dots(shown),
        ),
    )


def _member_dots(records: Sequence[CycleRecord]) -> tuple[Dots, ...]:
    """The lines in the served mean, where there is one."""
    at = np.array([(r.cycle, line) for r in records for line in members_of(r)], float)
    return (Dots("in the served mean", "accent", at[:, 0], at[:, 1]),) if len(at) else ()


def _cell_text(record: CycleRecord, line: int, behind: float) -> str:
    setting, state = record.outcomes[line].setting, _state(record)
    role = "the champion, " if line == _champion(record) else ""
    role = role or ("in the served mean, " if line in members_of(record) else "")
    return (
        f"line {line}, {role}cycle {record.cycle}: served {state.served[line]:.5f}, "
        f"{behind:.5f} behind the best; {_steps_text(setting)}"
    )


def _steps_text(setting: Setting) -> str:
    """The step sizes, or all parameters of another trainer."""
    names = STEPS if setting.eta0 is not None else tuple(setting.others or {})
    return ", ".join(f"{name} {setting.value(name) or 0.0:.3g}" for name in names)


def _shades(behind: Sequence[float]) -> Numbers:
    """0 for the best lines, 1 for the worst tenth: one that goes wrong does not bleach the rest."""
    values = numbers(behind)
    worst = float(np.quantile(values, SHADED)) if len(values) else 0.0
    return np.clip(values / worst, 0.0, 1.0) if worst > 0 else np.zeros(len(values))


def champion_path(records: Sequence[CycleRecord]) -> np.ndarray:
    """(cycle, line) points of the last champion's ancestors, oldest first."""
    at = _champion(records[-1])
    points: list[tuple[int, int]] = []
    for record in reversed(records):
        if at is None:
            break
        points.append((record.cycle, at))
        parent = {one.line: one.parent for one in _state(record).replaced}.get(at)
        if parent is not None:  # it was copied after this cycle
            at = parent
            points.append((record.cycle, at))
    return np.array(points[::-1], float).reshape(-1, 2)


def _regret(study: Study, run: Run, arm: str, records: Sequence[CycleRecord]) -> Panel | None:
    fixed = _never_replaced(records[-1])
    judged = [r for r in records if r.served_logloss is not None and None not in _state(r).served]
    if not fixed or len(judged) < 2:
        return None
    each = np.array([_state(r).served for r in judged], float)[:, fixed]
    best = fixed[int(np.argmin(each.mean(axis=0)))]
    lost = np.array([r.served_logloss for r in judged], float) - each[:, fixed.index(best)]
    cycles = numbers([r.cycle for r in judged])
    mean = np.cumsum(lost) / np.arange(1, len(lost) + 1)
    return Panel(
        study.panel_title(run, f"{arm}, against line {best}"),
        Axis("cycle", cycles[0], cycles[-1], unit="cycle"),
        Axis("mean regret", *span_of([mean], include=(0.0,))),
        (Level("the best fixed line", 0.0), Line(arm, study.arms.index(arm), cycles, mean)),
    )


def _settings(study: Study, run: Run, arm: str, records: Sequence[CycleRecord], name: str) -> Panel:
    cycles = numbers([r.cycle for r in records])
    values = np.array([[o.setting.value(name) for o in r.outcomes] for r in records], float)
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=1)
    tone, log = study.arms.index(arm), name != "beta"
    led = [(c, row[k]) for c, row, r in zip(cycles, values, records, strict=True)
           if (k := _champion(r)) is not None]  # fmt: skip
    dots = np.array(led, float).reshape(-1, 2)
    return Panel(
        study.panel_title(run, f"{arm}: {name}"),
        Axis("cycle", cycles[0], max(cycles[-1], cycles[0] + 1), unit="cycle"),
        Axis(name, *span_of([values], log), log),
        (
            Line("first quartile", tone, cycles, low, faint=True),
            Line("third quartile", tone, cycles, high, faint=True),
            Line("median", tone, cycles, middle),
            Dots("champion", "accent", dots[:, 0], dots[:, 1]),
        ),
    )
