"""The decisions about work, without any process."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.journal.record import FileRef
from orchestrator.loop.committer import MAX_DELTAS, needs_full
from orchestrator.pool.dispatch import BATCH_S, batch_size
from orchestrator.pool.handle import GRACE_S
from orchestrator.pool.messages import BatchReply, Task
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.pool.retry import hang_limit_s, retry_or_fail
from orchestrator.pool.shares import share_limit_s
from support.records import SETTING, outcome
from trainer.outcome import Status


def tasks(n: int, **more: object) -> list[Task]:
    return [Task(i, SETTING, None, **more) for i in range(n)]  # type: ignore[arg-type]


def arm_round(n: int, serve: bool = False) -> ArmProgress:
    return ArmProgress("a", 0, tasks(n), 100, Pace(), chunk=None, start=None, serve=serve)


@given(st.integers(1, 500), st.integers(1, 64), st.floats(1e-6, 10) | st.none())
def test_batches_fit_and_leave_work_for_the_others(
    waiting: int, actors: int, seconds: float | None
) -> None:
    size = batch_size(tasks(waiting), waiting, actors, seconds)
    assert 1 <= size <= waiting
    if seconds is None:
        assert size == 1
    elif size > 1:
        assert size * seconds <= BATCH_S
        assert size <= math.ceil(waiting / (2 * actors))


def test_who_was_lost_in_company_begins_alone_and_uncounted() -> None:
    again, given_up = retry_or_fail(tasks(3), "it died", tries=1)
    assert [task.alone for task in again] == [True] * 3
    assert [task.tries for task in again] == [0] * 3
    assert given_up == []
    assert batch_size(again, 3, 1, 1e-3) == 1
    assert batch_size([*tasks(2), *again], 5, 1, 1e-3) == 2


def test_tries_are_bounded() -> None:
    (task,), losses = tasks(1), 0
    again = [task]
    while again:
        again, given_up = retry_or_fail(again, "it died", tries=3)
        losses += 1
    assert losses == 3
    assert (given_up[0].status, given_up[0].tries) == (Status.FAILED, 3)
    assert given_up[0].reason == "it died (3 tries)"


@given(st.integers(1, 1000), st.floats(0.01, 1000))
def test_a_dispatcher_has_time_to_fail_an_instance_that_hangs(tries: int, once_s: float) -> None:
    """With others, then alone as often as it is tried; trainers are replaced in between."""
    assert share_limit_s(once_s, tries) > (tries + 1) * (once_s + GRACE_S)


def test_an_instance_that_is_lost_with_dispatchers_again_and_again_fails() -> None:
    arm = arm_round(2, serve=True)
    for _ in range(2):
        batch = arm.next_batch(2, 9.0)
        assert batch.serve
        arm.lose_share(batch, "it hung", tries=2)
        assert [(task.tries, task.alone) for task in arm.waiting] == [(0, True)] * 2
    arm.record(arm.next_batch(1, 9.0), BatchReply((outcome(0),), {}, 0.5), "dispatcher", 2)
    arm.put_back(arm.next_batch(1, 9.0))  # with its node: that does not count
    assert arm.unfinished
    arm.lose_share(arm.next_batch(1, 9.0), "it hung", tries=2)
    retained, failed = arm.result(None).outcomes
    assert (retained.status, failed.status) == (Status.RETAINED, Status.FAILED)
    assert failed.reason == "its dispatcher was lost 3 times: it hung"


def test_a_call_is_given_time_by_what_it_should_take() -> None:
    assert hang_limit_s(4, 0.5, 1000, patience_s=30) == 30 + 10 * 4 * 0.5
    assert hang_limit_s(1, None, 10_000, patience_s=30) == 30 + 10


def test_the_winner_s_rows_are_asked_for_again() -> None:
    arm = arm_round(2)
    arm.record(
        arm.next_batch(2, 9.0), BatchReply((outcome(0), outcome(1, logloss=0.1)), {}), "first", 3
    )
    assert not arm.unfinished
    assert (arm.winner, arm.holder()) == (1, "first")
    arm.lose_winner(tries=3, again=True)
    assert arm.unfinished
    order = arm.next_batch(1, 9.0)
    assert [task.instance for task in order.tasks] == [1]
    arm.record(order, BatchReply((outcome(1, logloss=0.1),), {}), "second", 3)
    assert (arm.winner, arm.holder()) == (1, "second")


def test_without_time_the_next_best_wins() -> None:
    arm = arm_round(3)
    arm.record(
        arm.next_batch(2, 9.0), BatchReply((outcome(0), outcome(1, logloss=0.1)), {}), "first", 3
    )
    arm.close()
    arm.mark_late()
    arm.lose_winner(tries=3, again=False)
    result = arm.result(None)
    assert [o.status for o in result.outcomes] == [Status.RETAINED, Status.FAILED, Status.LATE]
    assert result.winner == 0


def test_a_lost_order_gives_back_what_it_was_asked() -> None:
    arm = arm_round(3, serve=True)
    first = arm.next_batch(2, 9.0)
    assert first.serve
    arm.lose(first, "it died", tries=3)
    assert [task.alone for task in arm.waiting] == [False, True, True]
    second = arm.next_batch(1, 9.0)
    assert second.serve
    arm.put_back(second)
    assert [task.instance for task in arm.waiting] == [2, 0, 1]
    assert arm.next_batch(1, 9.0).serve


def test_models_are_whole_when_deltas_weigh_as_much() -> None:
    base, delta = FileRef("a", "", 100), FileRef("b", "", 40)
    assert needs_full(())
    assert not needs_full((base, delta, delta))
    assert needs_full((base, delta, delta, delta))
    assert needs_full((base, *[FileRef("c", "", 0)] * MAX_DELTAS))


@pytest.mark.parametrize("tries", [1, 3])
def test_after_the_deadline_what_is_not_done_is_late(tries: int) -> None:
    arm = arm_round(1)
    batch = arm.next_batch(1, 2.0)
    arm.close()
    arm.record(batch, BatchReply((), {}), "actor", tries)
    arm.mark_late()
    assert [outcome.status for outcome in arm.result(None).outcomes] == [Status.LATE]
