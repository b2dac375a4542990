"""Event files of TensorBoard: a folder for each arm, in which the newest file is appended to.

Every file begins with the step that it starts at, from which on readers drop what earlier files
hold. So a cycle that is written again, after a resume or a failed write, counts once.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, TrackConfig
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import CorruptError
from orchestrator.report.load import short_names
from orchestrator.storage.output import Output
from orchestrator.storage.store import Store
from orchestrator.track.tracked_cycle import TrackedCycle, parameters, tracked

OWNER = "run.txt"
"""Names the run whose cycles a folder holds."""
VERSION = "brain.Event:2"


class EventLog:
    """The event files of a run."""

    def __init__(self, options: TrackConfig, config: RunConfig, run: Store) -> None:
        self._config, self._run = config, run
        place = Path(options.tensorboard).expanduser().absolute()
        self._folder = place / short_names([run.uri])[0]
        self._files: dict[str, Path] = {}
        """The file of each arm that is appended to."""
        self._logged: dict[str, int] = {}
        """The last cycle of each arm that was written here, so that none is written twice."""

    def append(self, points: Sequence[TrackedCycle]) -> None:
        """Write cycles of the arms, oldest first, after those of the journal that are missing.

        After an exception, append the same again, with all that followed.
        """
        self._check_owner()
        for arm in (arm.name for arm in self._config.arms):
            done = self._logged.get(arm, -1)
            own = [point for point in points if point.arm == arm and point.cycle > done]
            file = self._files.pop(arm, None)  # after a failure the next one is begun
            if file is None:
                file, own = self._begin(arm, own)
            elif own:
                with file.open("ab") as opened:
                    opened.write(_encoded(map(_event, own)))
            if file is not None:
                self._files[arm] = file
            if own:
                self._logged[arm] = own[-1].cycle

    def _begin(
        self, arm: str, points: Sequence[TrackedCycle]
    ) -> tuple[Path | None, list[TrackedCycle]]:
        """A new file and its cycles: those of the journal that no file holds, then the points.

        None if there are none.
        """
        folder = self._folder / arm
        files = sorted(folder.glob("events.out.tfevents.*"))
        points = [*self._unlogged(arm, _last_cycle(files), points), *points]
        if not points:
            return None, points
        name = f"events.out.tfevents.{len(files):010d}.holdfast"
        data = _encoded(chain(self._head(arm, points[0]), map(_event, points)))
        Output(str(folder)).put(name, data)
        return folder / name, points

    def _check_owner(self) -> None:
        """InputError if the folder is that of another run; the first one writes its name."""
        note = self._folder / OWNER
        if not note.exists():
            Output(str(self._folder)).put(OWNER, f"{self._run.uri}\n".encode())
        owner = note.read_text(encoding="utf-8").strip()
        if owner != self._run.uri:
            raise InputError(
                f"{self._folder}: holds the cycles of {owner}: track to another folder"
            )

    def _unlogged(
        self, arm: str, last: int, points: Sequence[TrackedCycle]
    ) -> Iterator[TrackedCycle]:
        """The cycles of the journal from the last one that is held to those in hand.

        A run may have been tracked late, or killed before it had logged them.
        """
        before = points[0].cycle if points else math.inf
        for cycle in cycles_of(self._run, arm):
            if last < cycle < before:
                try:
                    yield tracked(read_record(self._run, arm, cycle))
                except CorruptError:
                    continue  # a run resumes without it, too

    def _head(self, arm: str, first: TrackedCycle) -> Iterator[Any]:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        start = SessionLog(status=SessionLog.START)
        given = hparams_pb(parameters(self._config, arm), start_time_secs=first.at)
        yield Event(wall_time=first.at, file_version=VERSION)
        yield Event(wall_time=first.at, step=first.cycle, session_log=start)
        yield Event(wall_time=first.at, step=first.cycle, summary=given)


def _event(point: TrackedCycle) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in point.values.items()]
    return Event(wall_time=point.at, step=point.cycle, summary=Summary(value=values))


def _encoded(events: Iterable[Any]) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    data = BytesIO()
    writer = RecordWriter(data)
    for event in events:
        writer.write(event.SerializeToString())
    return data.getvalue()


def _last_cycle(files: Sequence[Path]) -> int:
    """The last cycle that the files hold; -1: none. One that was cut off counts up to there."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for file in reversed(files):
        steps = [
            event.step if event.HasField("summary") else event.step - 1  # it starts there
            for event in LegacyEventFileLoader(str(file)).Load()
            if event.HasField("session_log") or event.HasField("summary")
        ]
        if steps:
            return int(max(steps))
    return -1
