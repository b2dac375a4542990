"""Two arms side by side, of one run or of two runs over the same events.

`ARM` names an arm of every run that has it, `RUN:ARM` that of one run. Arms of two runs are
compared on the chunks that both runs trained on, which the checksums in the records show.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pandas as pd

from divergence.errors import InputError
from orchestrator.config.schema import ArmConfig, StartFromRun, identity
from orchestrator.journal.record import CycleRecord
from orchestrator.report.load import Run, absolute
from orchestrator.report.study import DAY, Pair, Study


@dataclass(frozen=True, slots=True)
class RunArm:
    """An arm of a run."""

    run: Run
    arm: str

    @property
    def name(self) -> str:
        """As it is named among several runs."""
        return f"{self.run.name}:{self.arm}"

    @property
    def config(self) -> ArmConfig:
        """Its part of the run's config."""
        return next(arm for arm in self.run.config.arms if arm.name == self.arm)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two arms, and what they have in common."""

    ours: RunArm
    theirs: RunArm
    pair: Pair
    left_out: int = 0
    """Cycles with events that only one of two runs trained on, or that one started with."""
    may_have_seen: str | None = None
    """The side whose first model is the other's newest champion, which has seen some events."""


def study_of(runs: Sequence[Run], baseline: str | None, challenger: str | None) -> Study:
    """A study of these runs; InputError if a requested arm is in no run, or compared with itself.

    An arm is named as ARM, or RUN:ARM where RUN is a run's short name, folder or URI.
    """
    first = _checked(runs, "--baseline", baseline)
    second = _checked(runs, "--challenger", challenger)
    if first is not None and first == second:
        raise InputError(
            f"--challenger and --baseline must be different arms, but both are {first!r}"
        )
    return Study(tuple(runs), first, second)


def within(study: Study, run: Run, arm: str) -> Compared:
    """An arm of a run beside the run's baseline."""
    base = study.baseline_of(run)
    return Compared(RunArm(run, arm), RunArm(run, base), study.pair(run, arm, base))


def across(study: Study, ours: RunArm, theirs: RunArm) -> Compared:
    """Arms of two runs on the chunks that both trained on, in the order of `theirs`."""
    matched, left_out = _matched(ours, theirs)
    fair = [(mine, other) for mine, other in matched if _is_fair(ours, theirs, mine, other)]
    matched, left_out = fair, left_out + len(matched) - len(fair)
    cycles = pd.Index([cycle for _, cycle in matched], dtype=int)
    frame = study.of(ours.run, ours.arm).loc[[cycle for cycle, _ in matched]].set_axis(cycles)
    other = study.of(theirs.run, theirs.arm).loc[cycles]
    forked = _forked(ours, theirs)
    acclimation = min(DAY, len(cycles) // 4) if forked else 0
    name = f"{theirs.run.name} and {ours.run.name}"
    pair = Pair(name, ours.name, theirs.name, frame, other, acclimation, forked)
    return Compared(ours, theirs, pair, left_out, _may_have_seen(ours, theirs))


def requested_across(study: Study) -> tuple[RunArm | None, RunArm | None] | None:
    """The sides of a comparison between two runs that was asked for, (ours, theirs).

    A side is None where it was left open. None: nothing of the kind was asked for.
    """
    ours, theirs = (_side(study.runs, name) for name in (study.challenger, study.baseline))
    if ours is not None and theirs is not None:
        return None if ours.run is theirs.run else (ours, theirs)
    if study.challenger is not None and study.baseline is not None:
        return None
    asked = ours or theirs
    others = [run for run in study.searching.shown if asked is not None and run is not asked.run]
    if asked is None or not others or not _means_across(study, asked):
        return None
    if ours is None:
        return None, theirs
    return ours, RunArm(others[0], study.baseline_of(others[0]))


def alternatives(study: Study) -> list[Run]:
    """The runs that are another way to train on the first run's events; not repeats of it."""
    first, *rest = study.searching.shown or (None,)
    if first is None:
        return []
    own = _without_seed(first)
    return [run for run in rest if _without_seed(run) != own and _share_events(first, run)]


def no_common_events(ours: Run, theirs: Run) -> str:
    """Why arms of two runs cannot be compared, and what to do."""
    if _share_events(ours, theirs):
        return (
            f"{theirs.name} and {ours.name} have only events in common that the first model of one "
            "of them had seen, so their arms cannot be compared: continue both, or set start_from "
            "to an earlier cycle"
        )
    records = [next(iter(_longest_arm(run)), None) for run in (theirs, ours)]
    if any(record is not None and record.chunk.digest is None for record in records):
        why = "one of them was written by a version that kept no checksums of the events"
    else:
        shown = (f"{run.name} begins with {_chunk_text(record)}"
                 for run, record in zip((theirs, ours), records, strict=True))  # fmt: skip
        why = ", ".join(shown)
    return (
        f"{theirs.name} and {ours.name} did not train on the same events, so their arms cannot be "
        f"compared: {why}. Train both with the same source, cut and (simulator) source.seed"
    )


def _checked(runs: Sequence[Run], option: str, text: str | None) -> str | None:
    """The name of an arm: ARM as it is, RUN:ARM with the short name of the run."""
    if text is None:
        return None
    known = sorted({arm.name for run in runs for arm in run.config.arms})
    if text in known:
        return text
    place, colon, arm = text.rpartition(":")
    for run in runs if colon else ():
        if place.rstrip("/") in (run.name, run.uri) or absolute(place) == run.uri:
            if any(one.name == arm for one in run.config.arms):
                return f"{run.name}:{arm}"
            raise InputError(
                f"{option}: {run.name} has no arm named {arm!r}; its arms are "
                f"{sorted(one.name for one in run.config.arms)}"
            )
    if colon:
        raise InputError(
            f"{option}: {place!r} is not one of the runs; they are {[run.name for run in runs]}"
        )
    raise InputError(f"{option}: no run has an arm named {text!r}; the arms are {known}")


def _side(runs: Sequence[Run], name: str | None) -> RunArm | None:
    """The one arm of that name; None if there are several, one in each run."""
    sides = [RunArm(run, arm.name) for run in runs for arm in run.config.arms]
    found = [side for side in sides if name in (side.arm, side.name)]
    return found[0] if len(found) == 1 else None


def _means_across(study: Study, asked: RunArm) -> bool:
    """RUN:ARM asks for a comparison with another run; ARM does if its run has no other arm."""
    return asked.name in (study.challenger, study.baseline) or len(asked.run.config.arms) == 1


def _matched(ours: RunArm, theirs: RunArm) -> tuple[list[tuple[int, int]], int]:
    """Cycles of both with the same events, and how many others there are with events."""
    first, second = (side.run.records[side.arm] for side in (ours, theirs))
    mine, other = _keys(first, second, _reads_other_columns(ours.run, theirs.run))
    found = [(mine[key], cycle) for key, cycle in other.items() if key in mine]
    return found, len(mine) + len(other) - 2 * len(found)


def _keys(
    ours: Sequence[CycleRecord], theirs: Sequence[CycleRecord], other_columns: bool
) -> tuple[dict[Hashable, int], dict[Hashable, int]]:
    """The cycles of both by what tells their chunks from others.

    That is the checksum, which covers the columns that a run reads. Where two runs read different
    columns, the same events have the same origin, times and counts.
    """
    for key in (_digest, _origin) if other_columns else (_digest,):
        mine, other = (
            {key(one): one.cycle for one in own if one.chunk.events and one.chunk.digest}
            for own in (ours, theirs)
        )
        if mine.keys() & other.keys():
            break
    return mine, other


def _digest(record: CycleRecord) -> Hashable:
    return record.chunk.digest


def _origin(record: CycleRecord) -> Hashable:
    chunk = record.chunk
    return chunk.origin, chunk.newest, chunk.events, chunk.clicks


def _reads_other_columns(first: Run, second: Run) -> bool:
    sources = [(run.config.source.model_dump(), run.config.features) for run in (first, second)]
    return first.config.features is not None and sources[0] != sources[1]


def _share_events(first: Run, second: Run) -> bool:
    changed = _reads_other_columns(first, second)
    mine, other = _keys(_longest_arm(first), _longest_arm(second), changed)
    return bool(mine.keys() & other.keys())


def _longest_arm(run: Run) -> Sequence[CycleRecord]:
    """The records of the arm with most of them."""
    return max(run.records.values(), key=len, default=())


def _without_seed(run: Run) -> dict[str, object]:
    return identity(run.config) | {"seed": None}


def _starts_from(side: RunArm, other: RunArm) -> StartFromRun | None:
    start = side.config.start_from
    from_run = isinstance(start, StartFromRun) and absolute(start.run) == other.run.uri
    return start if isinstance(start, StartFromRun) and from_run else None


def _is_fair(ours: RunArm, theirs: RunArm, mine: int, other: int) -> bool:
    """Whether neither side began with a model that had trained on these events already."""
    for side, source, cycle in ((ours, theirs, other), (theirs, ours, mine)):
        start = _starts_from(side, source)
        if start is not None and start.cycle is not None and cycle <= start.cycle:
            return False
    return True


def _may_have_seen(ours: RunArm, theirs: RunArm) -> str | None:
    for side, source in ((ours, theirs), (theirs, ours)):
        start = _starts_from(side, source)
        if start is not None and start.cycle is None:
            return side.name
    return None


def _forked(ours: RunArm, theirs: RunArm) -> bool:
    """Whether both started from one model: the other's run, or the same one."""
    start, other = ours.config.start_from, theirs.config.start_from
    same = isinstance(start, StartFromRun) and start == other
    return same or bool(_starts_from(ours, theirs) or _starts_from(theirs, ours))


def _chunk_text(record: CycleRecord | None) -> str:
    if record is None:
        return "no cycle"
    return f"{record.chunk.origin} ({record.chunk.events:,} events, {record.chunk.clicks:,} clicks)"
