"""The head of the page: which runs, the numbers to remember, and what could not be read."""

from collections.abc import Sequence
from html import escape

from orchestrator.report.interval import CONFIDENCE
from orchestrator.report.load import Run
from orchestrator.report.sections.retained import gain
from orchestrator.report.study import Study
from orchestrator.report.verdict import points

MOST_FAULTS = 20


def head(study: Study, refused: Sequence[str]) -> str:
    """Runs, faults and tiles, as HTML."""
    runs = "".join(f"<li>{escape(run_line(run))}</li>" for run in study.runs)
    return f'<ul class="runs soft">{runs}</ul>{_faults(study, refused)}{_tiles(study)}'


def foot(files: Sequence[str]) -> str:
    """How intervals are had, and the files beside the page, as HTML."""
    links = ", ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    return (
        f"<p>Intervals: {CONFIDENCE:.0%}, from the equal-weighted cosine estimate of the long-run "
        "variance (0.6·√n cosines) and Student's t, on series paired by cycle. Verdicts: a "
        "statement holds where the whole interval lies on its side of the threshold, fails where "
        "it lies on the other, and cannot be told otherwise; a claim agrees where all its "
        f"statements hold, and does not where one fails.</p><p>Beside this page: {links}.</p>"
    )


def run_line(run: Run) -> str:
    """A run in one line."""
    source = run.config.source
    kind = " ".join(str(getattr(source, key)) for key in ("kind", "preset") if hasattr(source, key))
    # A run may have been told to go on beyond what its folder's config says.
    planned = f" of {run.config.cycles}" if (run.config.cycles or 0) >= run.cycles else ""
    lengths = {len(records) for records in run.records.values()}
    uneven = f" (arms have {min(lengths)} to {max(lengths)})" if len(lengths) > 1 else ""
    return (
        f"{run.name}: {run.cycles}{planned} cycles{uneven}, {len(run.records)} arms of "
        f"{run.config.search.instances} instances, {kind}, seed {run.config.seed}"
    )


def faults(study: Study, refused: Sequence[str]) -> list[str]:
    """Whatever could not be read, a line each, at most a screenful."""
    told = [*refused, *(f"{run.name}: {fault}" for run in study.runs for fault in run.faults)]
    more = len(told) - MOST_FAULTS
    return [*told[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])]


def _faults(study: Study, refused: Sequence[str]) -> str:
    told = faults(study, refused)
    if not told:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in told)
    return f'<div class="notes"><ul>{lines}</ul></div>'


def _tiles(study: Study) -> str:
    """The retained fractions of the arms compared."""
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
            tiles.append(_tile(value, "points more retained", escape(interval), where))
        rows.append(f'<div class="tiles">{"".join(tiles)}</div>')
    return "".join(rows)


def _tile(value: str, what: str, name: str, where: str) -> str:
    return (
        f'<div class="tile">{name}<b>{escape(value)}</b><small>{what}{escape(where)}</small></div>'
    )
