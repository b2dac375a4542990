"""The head of the page: the runs, the main numbers, and what could not be read."""

from collections.abc import Sequence
from html import escape

from orchestrator.report.interval import CONFIDENCE
from orchestrator.report.load import Run
from orchestrator.report.sections.retained import gain
from orchestrator.report.study import Study
from orchestrator.report.verdict import points

MAX_FAULTS = 20


def head(study: Study, refused: Sequence[str]) -> str:
    """Runs, faults and tiles, as HTML."""
    runs = "".join(f"<li>{escape(run_line(run))}</li>" for run in study.runs)
    return f'<ul class="runs soft">{runs}</ul>{_faults(study, refused)}{_tiles(study)}'


def foot(files: Sequence[str]) -> str:
    """How intervals are computed, and links to the files beside the page, as HTML."""
    links = ", ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    return (
        f"<p>Intervals: {CONFIDENCE:.0%}, from the equal-weighted cosine estimate of the long-run "
        "variance (0.6·√n cosines) and Student's t, on series paired by cycle. Verdicts: a "
        "statement holds if the entire interval lies on its side of the threshold, fails if the "
        "entire interval lies on the other side, and cannot be told otherwise. A claim agrees if "
        "all its statements hold, and does not agree if one of them fails.</p>"
        f"<p>Files beside this page: {links}.</p>"
    )


def run_line(run: Run) -> str:
    """One line that describes a run."""
    source = run.config.source
    kind = " ".join(str(getattr(source, key)) for key in ("kind", "preset") if hasattr(source, key))
    # A run may have been resumed with more cycles than the config in its folder says.
    planned = f" of {run.config.cycles}" if (run.config.cycles or 0) >= run.cycles else ""
    lengths = {len(records) for records in run.records.values()}
    uneven = f" (arms have {min(lengths)} to {max(lengths)})" if len(lengths) > 1 else ""
    return (
        f"{run.name}: {run.cycles}{planned} cycles{uneven}, {len(run.records)} arms of "
        f"{run.config.search.instances} instances, {kind}, seed {run.config.seed}"
    )


def faults(study: Study, refused: Sequence[str]) -> list[str]:
    """One line for each thing that could not be read, at most a screenful."""
    found = [*refused, *(f"{run.name}: {fault}" for run in study.runs for fault in run.faults)]
    more = len(found) - MAX_FAULTS
    return [*found[:MAX_FAULTS], *([f"and {more} more"] if more > 0 else [])]


def _faults(study: Study, refused: Sequence[str]) -> str:
    found = faults(study, refused)
    if not found:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in found)
    return f'<div class="notes"><ul>{lines}</ul></div>'


def _tiles(study: Study) -> str:
    """The retained fractions of the compared arms, as HTML."""
    rows = []
    for run in study.searching.shown:
        tiles = []
        pair = study.main_pair(run)
        where = f" · {run.name}" if len(study.shown) > 1 else ""
        base = study.baseline_of(run)
        arms = {base: study.of(run, base)}
        if pair is not None:
            arms = {pair.baseline: pair.theirs, pair.arm: pair.ours}
        for arm, frame in arms.items():
            mean = frame["retained_fraction"].mean()
            swatch = f'<span class="swatch tone-{study.arms.index(arm) % 8}"></span>'
            tiles.append(_tile(f"{mean:.1%}", "retained", f"{swatch}<i>{escape(arm)}</i>", where))
        if pair is not None:
            value, _, interval = points(gain(pair)).partition(" points ")
            tiles.append(_tile(value, "difference in points", escape(interval), where))
        rows.append(f'<div class="tiles">{"".join(tiles)}</div>')
    return "".join(rows)


def _tile(value: str, what: str, name: str, where: str) -> str:
    return (
        f'<div class="tile">{name}<b>{escape(value)}</b><small>{what}{escape(where)}</small></div>'
    )
