"""The time of a cycle, computed from a measured speed."""

import pytest

from orchestrator.offline.cycle_time import EFFICIENCY, CycleTime, cycle_time, event_seconds
from support.configs import MINIMAL, config, small


def test_every_core_trains_one_instance_after_the_other() -> None:
    found = CycleTime(instances=40, arms=1, events=50_000, cores=16, event_s=18e-6)
    assert found.seconds == pytest.approx(3 * 50_000 * 18e-6 / EFFICIENCY)  # 40 on 16: 3 rounds
    assert found.core_hours == pytest.approx(16 * found.seconds / 3600)


def test_the_measured_speed_is_that_of_the_geometry() -> None:
    narrow, wide = (event_seconds(small(*more), 2_000) for more in ((), ("features=null",)))
    assert 1e-8 < narrow < wide < 1e-3


def test_features_with_lists_of_weighted_values_are_measured_too() -> None:
    features = "features={user: [a, {name: b, multi: true, weights: w}], ad: [c]}"
    source = "source={kind: files, path: x.csv, cut: {events: 700}}"
    given = config(MINIMAL, source, features)
    assert given.source.events_of_a_cycle == 700
    assert cycle_time(given, 700, 2).seconds > 0


def test_instances_that_diverge_at_once_still_have_a_speed() -> None:
    assert event_seconds(config(MINIMAL, "model.tau=1e-6"), 100) > 0
