"""The results of the field's benchmark, as one file from which the page is made."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from scripts.bench.fields.learner import FieldSetting
from scripts.bench.fields.measure import FieldRun

HOLDS = 0.02
"""A learner holds at ten times its step size if it loses at most so much gain."""


@dataclass(frozen=True)
class FieldRow:
    """A learner on a stream: its best setting, and ten times its step size."""

    peer: str
    stream: str
    version: str
    setting: FieldSetting
    at_edge: bool
    """No smaller, or no larger, step size than the best was tried."""
    first: int
    """The first chunk that counts."""
    runs: tuple[FieldRun, ...]
    """One for each seed."""
    hot: tuple[FieldRun, ...]

    @property
    def gains(self) -> list[float]:
        """Of each seed."""
        return [run.gain(self.first) for run in self.runs]

    @property
    def gain(self) -> float:
        """The mean over seeds."""
        return fmean(self.gains)

    @property
    def logloss(self) -> float:
        """The mean served log-loss of an event, over seeds."""
        return fmean((1.0 - run.gain(self.first)) * self._constant(run) for run in self.runs)

    def _constant(self, run: FieldRun) -> float:
        rows = list(zip(run.events, run.constant, strict=True))[self.first :]
        return sum(n * each for n, each in rows) / sum(n for n, _ in rows)

    @property
    def events_a_second(self) -> float:
        """Of training: all seeds together."""
        return sum(run.trained for run in self.runs) / sum(run.cpu_s for run in self.runs)

    @property
    def memory_mb(self) -> float:
        """The largest of all seeds."""
        return max(run.memory_mb for run in self.runs)

    @property
    def hot_gain(self) -> float:
        """At ten times the step size; the mean over seeds."""
        return fmean(run.gain(self.first) for run in self.hot)

    @property
    def loses(self) -> float:
        """How much gain ten times the step size costs."""
        return self.gain - self.hot_gain

    @property
    def holds(self) -> bool:
        """Whether ten times the step size costs little."""
        return bool(self.hot) and self.loses <= HOLDS


@dataclass(frozen=True)
class FieldTable:
    """All that goes on the page."""

    rows: tuple[FieldRow, ...]
    missing: dict[str, str]
    """Learners that did not run, and what would make them available."""
    seeds: dict[str, list[int]]
    """By stream."""
    tried: int
    """Settings of each learner."""
    machine: str
    load: str

    @property
    def streams(self) -> list[str]:
        """In order."""
        return list(dict.fromkeys(row.stream for row in self.rows))

    def of(self, stream: str) -> list[FieldRow]:
        """The rows of a stream, the best first."""
        return sorted((r for r in self.rows if r.stream == stream), key=lambda r: -r.gain)


def write_table(path: Path, table: FieldTable) -> None:
    """As JSON."""
    path.write_text(json.dumps(_rounded(asdict(table)), indent=1) + "\n", encoding="utf-8")


def read_table(path: Path) -> FieldTable:
    """What `write_table` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(
        FieldRow(**{**row, "runs": _runs(row["runs"]), "hot": _runs(row["hot"])})
        for row in found.pop("rows")
    )
    return FieldTable(rows, **found)


def _runs(found: Sequence[dict[str, object]]) -> tuple[FieldRun, ...]:
    return tuple(FieldRun(**one) for one in found)  # type: ignore[arg-type]


def _rounded(value: object) -> object:
    """Six digits are enough."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(own) for name, own in value.items()}
    return [_rounded(own) for own in value] if isinstance(value, list | tuple) else value
