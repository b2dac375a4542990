import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from orchestrator.journal.record import ChunkInfo, decode, encode
from orchestrator.loop.prefetch import newest_event
from orchestrator.watch.metrics import OF_ARMS, OF_RUNS, arm_figures, run_figures
from support.records import record


def test_an_arm_s_figures_are_those_of_its_record() -> None:
    found = arm_figures(record())
    assert set(found) == set(OF_ARMS)
    assert found["holdfast_retained_fraction"] == 0.5
    assert found["holdfast_useful_fraction"] == 0.5
    assert found["holdfast_logloss"] == 0.2
    crowned = datetime(2024, 5, 1, 12, 0, 1, 500_000, UTC).timestamp()
    assert found["holdfast_champion_timestamp_seconds"] == crowned
    without = arm_figures(record(winner=None, outcomes=(), norms=None, served_logloss=None))
    assert set(without) == {"holdfast_constant_logloss", "holdfast_caution"}


def test_a_live_run_has_a_lag() -> None:
    newest = (datetime.now(UTC) - timedelta(seconds=40)).isoformat()
    chunk = ChunkInfo("toy", 300, 21, 0.51, {}, newest)
    found = run_figures(record(chunk=chunk), [10.0, 20.0, 29.0, 300.0], live=True)
    assert set(found) == set(OF_RUNS)
    assert found["holdfast_lag_seconds"] == pytest.approx(40, abs=10)
    assert found["holdfast_cycle_interval_seconds"] == 10.0
    assert found["holdfast_events_per_second"] == 200.0
    assert found["holdfast_last_commit_timestamp_seconds"] == pytest.approx(time.time(), abs=10)
    assert "holdfast_lag_seconds" not in run_figures(record(chunk=chunk), [10.0], live=False)


def test_the_newest_event_stands_in_the_record() -> None:
    times = pa.array([1_000_000, 2_500_000]).cast(pa.timestamp("us"))
    newest = newest_event(pa.table({"at": times}), "at")
    assert newest == "1970-01-01T00:00:02.500000+00:00"
    assert newest_event(pa.table({"at": [1, 2]}), "at") is None
    assert newest_event(pa.table({"at": times[:0]}), "at") is None
    assert newest_event(pa.table({"at": times}), None) is None
    kept = record(chunk=ChunkInfo("toy", 2, 0, 0.5, {}, newest))
    assert decode(encode(kept), "x").chunk.newest == newest
