"""A run's metrics for Prometheus, through Ray's endpoint, where their names begin with `ray_`.

Times are exported as timestamps, not as ages: an age is `time() - timestamp`, and keeps growing
when nobody updates it.
"""

import statistics
import time
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from ray.util.metrics import Counter, Gauge

from orchestrator.journal.record import CycleRecord, count_outcomes, winning_outcome
from orchestrator.watch.health import committed_at, parse_time, started_at

OF_ARMS = {
    "holdfast_retained_fraction": "Retained of the instances that divergence decided, last cycle",
    "holdfast_useful_fraction": "Retained and better than a constant CTR, last cycle",
    "holdfast_logloss": "The champion's progressive log-loss, last cycle",
    "holdfast_served_logloss": "Log-loss of the champion that was served, on the last chunk",
    "holdfast_constant_logloss": "Log-loss of a model that knows the last chunk's CTR",
    "holdfast_champion_timestamp_seconds": "When the champion was committed",
    "holdfast_champion_max_inf": "The champion's largest entry",
    "holdfast_caution": "How cautiously the last cycle was drawn; 0 is normal",
}
OF_RUNS = {
    "holdfast_cycle": "The newest committed cycle",
    "holdfast_cycle_seconds": "Seconds that the last cycle took",
    "holdfast_cycle_interval_seconds": "The usual time from one cycle to the next",
    "holdfast_last_commit_timestamp_seconds": "When the last cycle was committed",
    "holdfast_events_per_second": "Events of the last chunk per second of its cycle",
    "holdfast_lag_seconds": "Age of the newest trained event; live streams only",
}
OUTCOMES = "holdfast_outcomes_total"
"""Instances by arm and status: retained, diverged, failed, late."""
REMEMBERED = 20


class RunMetrics:
    """Keeps a run's metrics up to date. Ray must be up when the first cycle is committed."""

    def __init__(self, run: str, live: bool) -> None:
        """`live`: the stream's time is the clock's, so that a lag means something."""
        self._run, self._live = {"run": run}, live
        self._started: deque[float] = deque(maxlen=REMEMBERED)

    @cached_property
    def _gauges(self) -> dict[str, Gauge]:
        return {
            name: Gauge(name, description, ("run", "arm") if name in OF_ARMS else ("run",))
            for name, description in (OF_ARMS | OF_RUNS).items()
        }

    @cached_property
    def _outcomes(self) -> Counter:
        return Counter(OUTCOMES, "Instances by status", ("run", "arm", "status"))

    def update(self, records: Sequence[CycleRecord]) -> None:
        """A cycle is committed."""
        for record in records:
            tags = self._run | {"arm": record.arm}
            self._set(arm_figures(record), tags)
            for outcome in record.outcomes:
                self._outcomes.inc(tags=tags | {"status": outcome.status.value})
        self._started.append(started_at(records[0]).timestamp())
        self._set(run_figures(records[0], list(self._started), self._live), self._run)

    def _set(self, figures: dict[str, float], tags: dict[str, str]) -> None:
        for name, value in figures.items():
            self._gauges[name].set(value, tags=tags)


def arm_figures(record: CycleRecord) -> dict[str, float]:
    """The metrics of an arm's record; those that it does not have are left out."""
    count, best = count_outcomes(record), winning_outcome(record)
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


def run_figures(record: CycleRecord, starts: Sequence[float], live: bool) -> dict[str, float]:
    """The metrics of a run after a cycle; `starts` has the starts of the last cycles."""
    seconds = record.timings.get("cycle", 0.0)
    figures = {
        "holdfast_cycle": float(record.cycle),
        "holdfast_cycle_seconds": seconds,
        "holdfast_last_commit_timestamp_seconds": time.time(),
        "holdfast_events_per_second": record.chunk.events / seconds if seconds else 0.0,
    }
    gaps = [after - before for before, after in pairwise(starts)]
    figures["holdfast_cycle_interval_seconds"] = statistics.median(gaps) if gaps else seconds
    if live and record.chunk.newest is not None:
        figures["holdfast_lag_seconds"] = time.time() - parse_time(record.chunk.newest).timestamp()
    return figures
