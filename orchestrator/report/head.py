"""The head of the page: the decision, the runs, and what could not be read."""

from collections.abc import Sequence
from html import escape

from orchestrator.config.schema import LineagesSelect
from orchestrator.report.advice import HOW, Advice
from orchestrator.report.decision import Decision
from orchestrator.report.glossary import glossary
from orchestrator.report.interval import CONFIDENCE
from orchestrator.report.load import Run
from orchestrator.report.stream import stream_lines
from orchestrator.report.study import Study
from orchestrator.watch.lines import summary_of
from orchestrator.watch.set_aside import set_aside_in, set_aside_text

MAX_FAULTS = 20
MAX_BOXES = 3
"""With more decisions than this, their tables are left out."""
KINDS = {Advice.SWITCH: "agrees", Advice.STAY: "disagrees", Advice.EARLY: "open"}
"""The colours of the badges."""


def boxes(found: Sequence[Decision]) -> str:
    """What the page begins with: the advice on two arms of each run, as HTML."""
    return "".join(_box(one, len(found)) for one in found)


def _box(found: Decision, count: int) -> str:
    run = f'<span class="soft">{escape(found.run)}</span>' if count > 1 else ""
    rows = "".join(
        f'<tr><th scope="row">{name}</th><td>{theirs}</td><td>{ours}</td><td>{difference}</td></tr>'
        for one in found.measures
        for name, theirs, ours, difference in [map(escape, one.texts)]
    )
    arms = f"<th>{escape(found.baseline)}</th><th>{escape(found.challenger)}</th>"
    table = (
        f'<div class="table"><table><thead><tr><th></th>{arms}<th>{escape(found.challenger)} '
        f"compared</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return (
        f'<div class="decision"><p class="advice"><b>{escape(found.headline)}</b> '
        f'<span class="badge {KINDS[found.advice]}">{found.advice}</span> {run}</p>'
        f"<p>{escape(found.reason)}</p>{table if count <= MAX_BOXES else ''}"
        f'<p>{_code(found.next_step)}</p><p class="soft">{escape(found.basis)}</p>'
        f"<details><summary>How this is decided</summary><p>{escape(HOW)}</p></details></div>"
    )


def _code(text: str) -> str:
    """Text with `code` in it, as HTML."""
    parts = escape(text).split("`")
    return "".join(f"<code>{one}</code>" if i % 2 else one for i, one in enumerate(parts))


def head(study: Study, refused: Sequence[str], lines: Sequence[str] = ()) -> str:
    """Runs, further lines about them, and faults, as HTML."""
    listed = [*run_lines(study), *line_summaries(study), *stream_lines(study), *lines]
    runs = "".join(f"<li>{escape(line)}</li>" for line in listed)
    words = '<li><a href="#words">What the words mean</a></li>'
    return f'<ul class="runs soft">{runs}{words}</ul>{_faults(study, refused)}'


def foot(files: Sequence[str]) -> str:
    """How intervals are computed, the files beside the page, and the words, as HTML."""
    links = ", ".join(f'<a href="{escape(name)}">{escape(name)}</a>' for name in files)
    beside = f"<p>Files beside this page: {links}.</p>" if files else ""
    return (
        f"<p>Intervals: {CONFIDENCE:.0%}, from the equal-weighted cosine estimate of the long-run "
        "variance (0.6·√n cosines) and Student's t, on series paired by cycle. Verdicts: a "
        "statement holds if the entire interval lies on its side of the threshold, fails if the "
        "entire interval lies on the other side; else there is too little data. A claim agrees if "
        "all its statements hold, and is not seen here if one of them fails. Bounds of shares and "
        "of their differences are clipped to what is possible.</p>"
        f"{beside}{glossary()}"
    )


def run_lines(study: Study) -> list[str]:
    """A line that describes each run, followed by one about the rows that it did not train on.

    A run without cycles has none: it is among the faults.
    """
    begun = [run for run in study.runs if run.cycles]
    return [line for run in begun for line in (run_line(run), _set_aside(run)) if line]


def _set_aside(run: Run) -> str | None:
    records = (record for own in run.records.values() for record in own)
    text = set_aside_text(set_aside_in(records), run.config, run.uri)
    return text and f"{run.name}: {text}"


def run_line(run: Run) -> str:
    """One line that describes a run."""
    source = run.config.source
    kind = " ".join(str(getattr(source, key)) for key in ("kind", "preset") if hasattr(source, key))
    # A run may have been resumed with more cycles than the config in its folder says.
    cycles = run.config.cycles
    planned = f" of {cycles}" if cycles is not None and cycles >= run.cycles else ""
    lengths = {len(records) for records in run.records.values()}
    uneven = f" (arms have {min(lengths)} to {max(lengths)})" if len(lengths) > 1 else ""
    arms = f"{len(run.records)} arm{'s' * (len(run.records) != 1)}"
    what = "lines" if isinstance(run.config.search.select, LineagesSelect) else "instances"
    return (
        f"{run.name}: {run.cycles}{planned} cycles{uneven}, {arms} of "
        f"{run.config.search.instances} {what}, {kind}, seed {run.config.seed}"
    )


def line_summaries(study: Study) -> list[str]:
    """For each arm with lines: which is the champion, since when and why."""
    found = ((run, summary_of(own)) for run in study.shown for own in run.records.values())
    several = len(study.shown) > 1
    return [f"{run.name}: {text}" if several else text for run, text in found if text]


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
