"""The pool on logical nodes: no dispatcher waits for another."""

import time

import pytest

from orchestrator.pool.ray_pool import DIRECT, groups
from scripts.bench.scale import played, some_lines
from scripts.bench.virtual_ray import Costs

pytestmark = pytest.mark.slow  # Ray is imported

COSTS = Costs(
    submit_s=1.5e-4,
    share_s=2e-4,
    task_s=6e-6,
    get_s=3e-5,
    outcome_s=3e-6,
    wait_ref_s=5e-7,
    travel_s=3e-4,
    send_s=1.6e-4,
    record_s=1e-4,
)


@pytest.mark.parametrize(("cores", "per_core"), [(65, 4), (803, 4), (8000, 2)])
def test_all_cores_work_until_the_end(cores: int, per_core: int) -> None:
    """One wave more, for an uneven share, would be a third or a quarter of the time."""
    _, took, _ = played(COSTS, cores, per_core, 10.0)
    assert per_core * 10.0 / took > 0.95


def test_dispatchers_have_all_cores() -> None:
    assert groups(65) == (9, 8, 8, 8, 8, 8, 8, 8)
    for cores in (100, 800, 1234, 8000):
        sizes = groups(cores)
        assert sum(sizes) == cores
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= DIRECT


def test_to_send_a_line_takes_no_longer_where_there_are_many() -> None:
    """Each call looked at all lines that waited: eight times the calls took 64 times as long."""
    seconds = []
    for calls in (1_000, 8_000):
        arm, began = some_lines(0, 2 * calls), time.thread_time()
        arm.send_all()
        for first in range(calls):
            batch, _ = arm.line_batch([first, first + calls], 1.0)
            assert [task.instance for task in batch.tasks] == [first, first + calls]
        seconds.append(time.thread_time() - began)
        assert not arm.waiting
    assert seconds[1] < 24 * seconds[0], seconds
