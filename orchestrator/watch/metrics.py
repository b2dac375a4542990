"""A run's figures for Prometheus, through Ray's metrics endpoint, where they begin with `ray_`.

Times are exported as moments, not as ages: an age is `time() - moment`, and goes on growing when
nobody updates it.
"""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from types import TracebackType

from ray.util.metrics import Counter, Gauge

from orchestrator.journal.record import CycleRecord, champion, count_outcomes
from orchestrator.watch.console import View
from orchestrator.watch.health import committed_at, parse_time, started_at

OF_ARMS = {
    "holdfast_retained_fraction": "Retained of the instances that divergence decided, last cycle",
    "holdfast_useful_fraction": "Retained and better than a constant CTR, last cycle",
    "holdfast_logloss": "The champion's progressive log-loss, last cycle",
    "holdfast_served_logloss": "Log-loss of the champion that was served, on the last chunk",
    "holdfast_constant_logloss": "Log-loss of a model that knows the last chunk's CTR",
    "holdfast_champion_timestamp_seconds": "When the champion was crowned",
    "holdfast_champion_max_inf": "The champion's largest entry",
    "holdfast_caution": "How cautiously the last cycle was drawn; 0 is normal",
}
OF_RUNS = {
    "holdfast_cycle": "The newest committed cycle",
    "holdfast_cycle_seconds": "What the last cycle took",
    "holdfast_cycle_interval_seconds": "The usual time from one cycle to the next",
    "holdfast_last_commit_timestamp_seconds": "When the last cycle was committed",
    "holdfast_events_per_second": "Events of the last chunk by what its cycle took",
    "holdfast_lag_seconds": "How old the newest trained event is; of a live stream only",
}
OUTCOMES = "holdfast_outcomes_total"
"""Instances by arm and status: retained, diverged, failed, late."""
REMEMBERED = 20


class MeteredView:
    """A view that also keeps a run's metrics up to date. Ray must be up."""

    def __init__(self, view: View, run: str, live: bool) -> None:
        """`live`: the stream's time is the clock's, so that a lag means something."""
        self._view, self._run, self._live = view, {"run": run}, live
        self._gauges = {
            name: Gauge(name, told, ("run", "arm") if name in OF_ARMS else ("run",))
            for name, told in (OF_ARMS | OF_RUNS).items()
        }
        self._outcomes = Counter(OUTCOMES, "Instances by status", ("run", "arm", "status"))
        self._begun: deque[float] = deque(maxlen=REMEMBERED)

    def __enter__(self) -> "MeteredView":
        self._view.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._view.__exit__(kind, error, traceback)

    def say(self, message: str) -> None:
        """A line that is not about a cycle."""
        self._view.say(message)

    def show(self, records: Sequence[CycleRecord]) -> None:
        """One cycle."""
        self._view.show(records)
        for record in records:
            tags = self._run | {"arm": record.arm}
            self._set(arm_figures(record), tags)
            for outcome in record.outcomes:
                self._outcomes.inc(tags=tags | {"status": outcome.status.value})
        if records:
            self._begun.append(started_at(records[0]).timestamp())
            self._set(run_figures(records[0], list(self._begun), self._live), self._run)

    def _set(self, figures: dict[str, float], tags: dict[str, str]) -> None:
        for name, value in figures.items():
            self._gauges[name].set(value, tags=tags)


def arm_figures(record: CycleRecord) -> dict[str, float]:
    """What an arm's record says; a figure that it does not have is left out."""
    count, best = count_outcomes(record), champion(record)
    figures = {
        "holdfast_retained_fraction": count.retained_fraction,
        "holdfast_useful_fraction": count.useful / count.launched if count.launched else None,
        "holdfast_logloss": best.logloss if best else None,
        "holdfast_served_logloss": record.served_logloss,
        "holdfast_constant_logloss": record.chunk.constant_logloss if record.chunk.events else None,
        "holdfast_champion_timestamp_seconds": committed_at(record).timestamp() if best else None,
        "holdfast_champion_max_inf": record.norms.max_inf if record.norms else None,
        "holdfast_caution": float(record.caution),
    }
    return {name: value for name, value in figures.items() if value is not None}


def run_figures(record: CycleRecord, begun_at: Sequence[float], live: bool) -> dict[str, float]:
    """What a cycle says of its run; `begun_at` are the beginnings of the last cycles."""
    seconds = record.timings.get("cycle", 0.0)
    figures = {
        "holdfast_cycle": float(record.cycle),
        "holdfast_cycle_seconds": seconds,
        "holdfast_last_commit_timestamp_seconds": time.time(),
        "holdfast_events_per_second": record.chunk.events / seconds if seconds else 0.0,
    }
    gaps = [after - before for before, after in pairwise(begun_at)]
    figures["holdfast_cycle_interval_seconds"] = statistics.median(gaps) if gaps else seconds
    if live and record.chunk.newest is not None:
        figures["holdfast_lag_seconds"] = time.time() - parse_time(record.chunk.newest).timestamp()
    return figures
