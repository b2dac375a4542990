"""The lines of an arm in words: which one is the champion and why, and which were replaced."""

from collections.abc import Sequence

from orchestrator.journal.record import CycleRecord, LinesRecord, members_of
from orchestrator.search.lineages import LineState, paired_gain
from trainer.setting import PARAMETERS, Setting

HEADINGS = ("line", "setting", "over a constant CTR, discounted", "behind the champion", "origin")
"""The third is what lines are ranked by: a mean of log-losses in which old chunks count less."""


def setting_text(setting: Setting) -> str:
    """A setting in one line: what it has, four digits each."""
    values = ((name, setting.value(name)) for name in (*PARAMETERS, *(setting.others or {})))
    return " ".join(f"{name}={value:.4g}" for name, value in values if value is not None)


def champion_of(record: CycleRecord) -> int | None:
    """The line that is the champion; None if there is none, or if the arm has no lines."""
    return record.lineages.state.champion if record.lineages else None


def mean_text(record: CycleRecord) -> str:
    """The lines whose mean is served, in words; empty where one model is."""
    members = ", ".join(map(str, members_of(record)))
    return f"the mean of lines {members}" if members else ""


class LineNews:
    """What cycles change among lines, in words, from one cycle to the next."""

    def __init__(self) -> None:
        self._champions: dict[str, int | None] = {}

    def of(self, record: CycleRecord) -> list[str]:
        """A sentence for each change; that of the champion shows from the second record on."""
        lines, champion = record.lineages, champion_of(record)
        if lines is None:
            return []
        before = self._champions.get(record.arm, champion)
        self._champions[record.arm] = champion
        changed = champion is not None and before is not None and champion != before
        sentences = [f"line {champion} is the champion now: {lines.why}"] if changed else []
        for one in lines.replaced:
            setting = setting_text(lines.state.lines[one.line].setting)
            sentences.append(
                f"line {one.line} is now a copy of line {one.parent} with {setting}: {one.reason}"
            )
        return [f"{record.arm}: {sentence}" for sentence in sentences]


def summary_of(records: Sequence[CycleRecord]) -> str | None:
    """The champion of an arm after its last record, since when and why, the mean if one is served,
    and how many lines were replaced; None if it has no lines."""
    found = [(record, record.lineages) for record in records if record.lineages]
    if not found:
        return None
    last, lines = found[-1]
    champion, size = lines.state.champion, len(lines.state.lines)
    if champion is None:
        return f"{last.arm}: {size} lines, no champion yet: {lines.why}"
    since, why = last.cycle, lines.why
    for record, own in reversed(found):  # the one in which it changed may be damaged
        if own.state.champion != champion:
            break
        since, why = record.cycle, own.why
    copies = [one for _, own in found for one in own.replaced]
    lost = sum(one.was_lost for one in copies)
    setting = setting_text(lines.state.lines[champion].setting)
    mean = f"; {mean_text(last)} is served" if members_of(last) else ""
    replaced = f"{len(copies)} ({lost} lost, {len(copies) - lost} served worse)"
    return (
        f"{last.arm}: the champion is line {champion} of {size}, since cycle {since} ({why}), with "
        f"{setting}{mean}; lines replaced: {replaced if copies else 'none'}"
    )


def table_of(lines: LinesRecord) -> list[tuple[str, ...]]:
    """A row of `HEADINGS` for each line: the champion first, then from the best to the worst."""
    champion, states = lines.state.champion, lines.state.lines
    order = sorted(
        range(len(states)),
        key=lambda i: (i != champion, states[i].score is None, states[i].score or 0.0),
    )
    return [
        (
            str(i),
            setting_text(line.setting),
            "-" if line.score is None else f"{line.score:+.6f}",
            _behind(states, champion, i)
            + (", in the served mean" if i in lines.state.members else ""),
            "the start" if line.parent is None else f"line {line.parent} after cycle {line.born}",
        )
        for i in order
        for line in [states[i]]
    ]


def _behind(states: Sequence[LineState], champion: int | None, line: int) -> str:
    if champion is None:
        return "-"
    if line == champion:
        return "the champion"
    gain, error, chunks = paired_gain(states[champion], states[line])
    return f"{-gain:.6f} ± {error:.6f} a chunk ({chunks})" if chunks > 1 else "too few chunks"
