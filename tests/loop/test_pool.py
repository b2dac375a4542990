"""The pool when its processes die at awkward times."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator import crew
from orchestrator.actor import Trainer
from orchestrator.arm_round import ArmRound, Pace
from orchestrator.pool import Pool, Terms
from orchestrator.work import ArmResult, Order, Reply, Task
from trainer.outcome import Outcome, Status
from trainer.setting import Setting

SETTING = Setting(1.0, 3.0, 0.5)


def quick(deaths: Path) -> type[Trainer]:
    """Actors that train nothing, at once; one of them dies for each file in the folder."""

    class Quick(Trainer):
        def __init__(self, *_: object) -> None:
            pass

        def train(self, order: Order, chunk: object = None, start: object = None) -> Reply:
            for death in deaths.iterdir():
                death.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            retained = (
                Outcome(t.instance, SETTING, Status.RETAINED, 1.0, 1, 0.0) for t in order.tasks
            )
            return Reply(tuple(retained), {})

        def export(self, cycle: int, arm: str, instance: int) -> str:  # type: ignore[override]
            return "rows"

    return Quick


def train(pool: Pool, instances: int) -> ArmResult:
    tasks = [Task(i, SETTING, None) for i in range(instances)]  # type: ignore[arg-type]
    arm = ArmRound("a", 0, tasks, 1, Pace(), chunk=None, start=None, serve=False)
    (result,) = pool.train([arm])
    return result


def test_a_process_that_dies_after_a_long_rest_is_replaced(tmp_path: Path) -> None:
    """The time between two cycles is not time without a process."""
    with closing(Pool(None, (), 1, Terms(3, 30), quick(tmp_path))) as pool:  # type: ignore[arg-type]
        (pid,) = pool.wait_until_up()
        pool._crew._alone_since -= 10 * crew.START_S
        os.kill(pid, signal.SIGKILL)
        result = train(pool, 1)
    assert (result.winner, result.tables) == (0, "rows")


def test_a_process_that_dies_with_two_orders_is_lost_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large pool hears both answers at the same time."""
    monkeypatch.setattr(crew, "MANY", 0)
    (tmp_path / "death").touch()
    with closing(Pool(None, (), 1, Terms(3, 30), quick(tmp_path))) as pool:  # type: ignore[arg-type]
        pool.wait_until_up()
        result = train(pool, 5)
    assert [outcome.status for outcome in result.outcomes] == [Status.RETAINED] * 5
    assert list(tmp_path.iterdir()) == []
