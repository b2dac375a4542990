"""Print a replayed instance, as text or JSON."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from orchestrator.offline.replay import Replay
from orchestrator.watch.lines import setting_text
from trainer.trajectory import Crossing, Point

BARS = "▁▂▃▄▅▆▇█"
MAX_CROSSINGS = 5
MAX_ROWS = 10


def as_json(replay: Replay) -> dict[str, Any]:
    """The replay as JSON data; numbers that are not finite are null."""
    outcome = replace(replay.trajectory.outcome, instance=replay.recorded.instance)
    return {
        "arm": replay.arm,
        "cycle": replay.cycle,
        "same": replay.same,
        "outcome": _plain(asdict(outcome)),
        "points": [_plain(asdict(point)) for point in replay.trajectory.points],
        "crossings": [_plain(asdict(crossing)) for crossing in replay.trajectory.crossings],
    }


def lines(replay: Replay, tau: float) -> Iterator[str]:
    """The replay as lines of text."""
    outcome, trajectory = replay.trajectory.outcome, replay.trajectory
    head = f"cycle {replay.cycle}, {replay.arm}, instance {replay.recorded.instance}"
    yield f"{head}: {outcome.status} after {outcome.events_done:,} events"
    yield f"  {setting_text(outcome.setting)}"
    if outcome.reason:
        yield f"  {outcome.reason}"
    recorded = replay.recorded
    yield {
        True: "  the same as recorded, bit for bit",
        False: f"  NOT the same as recorded: {recorded.status}, logloss {recorded.logloss!r}",
        None: f"  recorded as {recorded.status}: {recorded.reason}",
    }[replay.same]
    yield f"largest |entry|, 0 to tau = {tau:g}: {_spark(trajectory.points, tau)}"
    yield "    events   largest |entry|   log-loss so far"
    for point in _thinned(trajectory.points):
        yield f"{point.events:>10,}   {point.max_inf:>15.4g}   {point.logloss:>15.5f}"
    yield from _crossing_lines(trajectory.crossings)


def _crossing_lines(crossings: tuple[Crossing, ...]) -> Iterator[str]:
    if not crossings:
        yield "no vector came close to tau"
    for level, group in groupby(crossings, key=attrgetter("level")):
        found = list(group)
        yield f"{level:.1%} of tau: {len(found)} vectors"
        for crossing in found[:MAX_CROSSINGS]:
            when = "from the start" if crossing.event < 0 else f"event {crossing.event:,}"
            value = crossing.value or "(missing)"
            yield f"    {when:<16} {crossing.feature}={value} ({crossing.norm:.4g})"


def _spark(points: tuple[Point, ...], tau: float) -> str:
    def bar(value: float) -> str:
        share = value / tau if value < tau else 1.0
        return BARS[min(int(share * len(BARS)), len(BARS) - 1)]

    return "".join(bar(point.max_inf) for point in points)


def _thinned(points: tuple[Point, ...]) -> list[Point]:
    every = max(len(points) // MAX_ROWS, 1)
    return [*points[1:-1:every], points[-1]]


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _plain(value) for key, value in data.items()}
    if isinstance(data, float) and not abs(data) < float("inf"):
        return None
    return data
