"""The pool when its processes die at awkward times."""

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.pool import actors
from orchestrator.pool.messages import ArmResult, Batch, BatchReply, Task
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.outcome import Outcome, Status
from trainer.setting import Setting

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]

SETTING = Setting(1.0, 3.0, 0.5)


def quick(deaths: Path) -> type[TrainerActor]:
    """Actors that train nothing, at once; one of them dies for each file in the folder."""

    class Quick(TrainerActor):
        def __init__(self, *_: object) -> None:
            pass

        def train(self, order: Batch, chunk: object = None, start: object = None) -> BatchReply:
            for death in deaths.iterdir():
                death.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            retained = (
                Outcome(t.instance, SETTING, Status.RETAINED, 1.0, 1, 0.0) for t in order.tasks
            )
            return BatchReply(tuple(retained), {})

        def export(self, cycle: int, arm: str, instance: int) -> str:  # type: ignore[override]
            return "rows"

    return Quick


def train(pool: RayPool, instances: int) -> ArmResult:
    tasks = [Task(i, SETTING, None) for i in range(instances)]  # type: ignore[arg-type]
    arm = ArmProgress("a", 0, tasks, 1, Pace(), chunk=None, start=None, serve=False)
    pool.start([arm])
    (result,) = pool.results()
    return result


def test_a_process_that_dies_after_a_long_rest_is_replaced(tmp_path: Path) -> None:
    """The time between two cycles is not time without a process."""
    with closing(RayPool(None, (), lambda: 1, RetryPolicy(3, 30), quick(tmp_path))) as pool:
        pool.wait_until_ready()
        (pid,) = pool.process_ids()
        pool._actors._none_ready_since -= 10 * actors.START_S
        os.kill(pid, signal.SIGKILL)
        result = train(pool, 1)
    assert (result.winner, result.tables) == (0, "rows")


def test_a_run_waits_for_processes_that_it_lost_but_not_for_its_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A cluster that lost its nodes needs minutes; a start without CPUs is a mistake."""
    with closing(RayPool(None, (), lambda: 1, RetryPolicy(3, 30), quick(tmp_path))) as pool:
        monkeypatch.setattr(actors, "START_S", 0.0)
        with pytest.raises(InputError, match="are there free CPUs"):
            pool._actors.check_some_are_ready()
        monkeypatch.undo()
        pool.wait_until_ready()
        (pid,) = pool.process_ids()
        os.kill(pid, signal.SIGKILL)
        monkeypatch.setattr(actors, "START_S", -1.0)  # however soon a new one starts
        result = train(pool, 1)
    assert (result.winner, result.tables) == (0, "rows")
    assert "The run waits for them" in caplog.text


def test_a_process_that_dies_with_two_orders_is_lost_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large pool hears both answers at the same time."""
    monkeypatch.setattr(actors, "MANY", 0)
    (tmp_path / "death").touch()
    with closing(RayPool(None, (), lambda: 1, RetryPolicy(3, 30), quick(tmp_path))) as pool:
        pool.wait_until_ready()
        result = train(pool, 5)
    assert [outcome.status for outcome in result.outcomes] == [Status.RETAINED] * 5
    assert list(tmp_path.iterdir()) == []


def leading(folder: Path, losses: list[float]) -> type[TrainerActor]:
    """Actors with these log-losses, which note whose rows they give out; one may die of it."""

    class Leading(quick(folder)):  # type: ignore[misc]
        def train(self, order: Batch, chunk: object = None, start: object = None) -> BatchReply:
            time.sleep(0.2)  # so that answers come one by one
            retained = (
                Outcome(t.instance, SETTING, Status.RETAINED, losses[t.instance], 1, 0.2)
                for t in order.tasks
            )
            return BatchReply(tuple(retained), {})

        def export(self, cycle: int, arm: str, instance: int) -> str:
            asked = sorted(folder.glob("asked-*"))
            (folder / f"asked-{len(asked)}-{instance}").touch()
            if (folder / "deadly").exists():
                (folder / "deadly").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return f"rows of {instance}"

    return Leading


@pytest.mark.parametrize(
    ("losses", "asked"), [([0.1, 0.2, 0.3], ["0"]), ([0.3, 0.2, 0.1], ["1", "2"])]
)
def test_rows_of_who_leads_are_asked_for_before_the_last_answer(
    tmp_path: Path, losses: list[float], asked: list[str]
) -> None:
    with closing(
        RayPool(None, (), lambda: 1, RetryPolicy(3, 30), leading(tmp_path, losses))  # type: ignore[arg-type]
    ) as pool:
        pool.wait_until_ready()
        result = train(pool, 3)
    winner = losses.index(0.1)
    assert (result.winner, result.tables) == (winner, f"rows of {winner}")
    assert [path.name.split("-")[2] for path in sorted(tmp_path.glob("asked-*"))] == asked


def test_a_leader_that_is_gone_once_it_was_asked_for_is_trained_again(tmp_path: Path) -> None:
    (tmp_path / "deadly").touch()
    with closing(
        RayPool(None, (), lambda: 2, RetryPolicy(3, 30), leading(tmp_path, [0.1, 0.2, 0.3]))
    ) as pool:
        pool.wait_until_ready()
        result = train(pool, 3)
    assert (result.winner, result.tables) == (0, "rows of 0")
    assert [outcome.status for outcome in result.outcomes] == [Status.RETAINED] * 3
    assert not (tmp_path / "deadly").exists()
