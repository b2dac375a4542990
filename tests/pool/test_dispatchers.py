"""Dispatchers: the same results as without, whatever happens to them or to their trainers."""

import logging
import math
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import ray

from orchestrator.pool import actors, ray_pool
from orchestrator.pool.dispatcher import Dispatcher
from orchestrator.pool.messages import ArmResult, Batch, BatchReply, Task
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from support.configs import small
from support.ray_runs import faulty, go
from support.runs import bits, go_here
from trainer.outcome import Outcome, Status
from trainer.setting import Setting

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]

SETTING = Setting(1.0, 3.0, 0.5)
DEAF = 5
"""The instance that never ends where the folder says so."""


@pytest.fixture(autouse=True, scope="module")
def dispatchers() -> Iterator[None]:
    """One for each of two trainers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_pool, "DIRECT", 1)
        yield


def steady(folder: Path) -> type[TrainerActor]:
    """Actors that take a while and train nothing; the later instances are the better ones."""

    class Steady(TrainerActor):
        def __init__(self, *_: object) -> None:
            pass

        def train(self, batch: Batch, chunk: object = None, start: object = None) -> BatchReply:
            return BatchReply(tuple(self.outcome(task) for task in batch.tasks), {})

        def outcome(self, task: Task) -> Outcome:
            time.sleep(1000 if task.instance == DEAF and (folder / "deaf").exists() else 0.1)
            (folder / f"done-{task.instance}-{os.getpid()}").touch()
            tries = task.tries + 1
            loss = 1 / (1 + task.instance)
            return Outcome(task.instance, SETTING, Status.RETAINED, loss, 1, 0.1, tries=tries)

        def export(self, cycle: int, arm: str, instance: int) -> str:  # type: ignore[override]
            if instance == 3 and (folder / "deadly").exists():
                (folder / "deadly").unlink()
                os.kill(os.getpid(), signal.SIGKILL)
            return f"rows of {instance}"

    return Steady


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("steady")


@pytest.fixture(scope="module")
def one_pool(dispatchers: None, ray_of_two_cores: None, folder: Path) -> Iterator[RayPool]:
    with closing(RayPool(None, (), lambda: 2, RetryPolicy(2, 1.0), steady(folder))) as pool:  # type: ignore[arg-type]
        yield pool


@pytest.fixture
def pool(one_pool: RayPool, folder: Path) -> RayPool:
    """The same for several tests; all its processes are there."""
    for path in folder.iterdir():
        path.unlink()
    one_pool.wait_until_ready()
    return one_pool


def arm_of(instances: int, first: int = 0) -> ArmProgress:
    tasks = [Task(first + i, SETTING, None) for i in range(instances)]  # type: ignore[arg-type]
    return ArmProgress("a", 0, tasks, 1, Pace(), chunk=None, start=None, serve=False)


def check(result: ArmResult, instances: int) -> None:
    """Everything is trained at its first try, and the last instance has won."""
    assert [o.instance for o in result.outcomes] == list(range(instances))
    assert {(o.status, o.tries) for o in result.outcomes} == {(Status.RETAINED, 1)}
    assert (result.winner, result.tables) == (instances - 1, f"rows of {instances - 1}")


def dispatcher_pid(pool: RayPool) -> int:
    """The process id of the first dispatcher."""
    call = pool._actors.all[0].handle.__ray_call__
    pid: int = ray.get(call.remote(lambda _: os.getpid()), timeout=60)
    return pid


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_dispatcher_that_is_killed_takes_its_trainers_along(pool: RayPool) -> None:
    handles = {actor.handle for actor in pool._actors.all}
    pids = pool.process_ids()
    assert (len(handles), len(pids)) == (2, 2)
    pool.start([arm_of(20)])
    os.kill(dispatcher_pid(pool), signal.SIGKILL)
    (result,) = pool.results()
    check(result, 20)
    assert len(handles & {actor.handle for actor in pool._actors.all}) == 1
    end = time.monotonic() + 60
    while not any(map(gone, pids)) and time.monotonic() < end:
        time.sleep(0.1)
    assert [gone(pid) for pid in pids].count(True) == 1


def test_a_dispatcher_that_hangs_is_replaced(
    pool: RayPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = pool._actors.all[0].handle
    monkeypatch.setattr(pool, "_policy", RetryPolicy(1, 0.1))  # it is waited for only so long
    pool.start([arm_of(6)])
    os.kill(dispatcher_pid(pool), signal.SIGSTOP)
    (result,) = pool.results()
    check(result, 6)
    assert handle not in [actor.handle for actor in pool._actors.all]


def test_an_instance_that_always_hangs_fails(
    pool: RayPool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its dispatcher has the time to find out, and the driver logs what the dispatcher lost."""
    caplog.set_level(logging.INFO)
    (folder / "deaf").touch()
    handles = {actor.handle for actor in pool._actors.all}
    pool.start([arm_of(1, first=DEAF)], time.monotonic() + 60)
    (result,) = pool.results()
    (deaf,) = result.outcomes
    assert (deaf.status, deaf.reason) == (Status.FAILED, "its process hung (2 tries)")
    assert handles == {actor.handle for actor in pool._actors.all}
    assert caplog.text.count("a trainer process is lost and replaced: its process hung") == 2


def test_a_dispatcher_waits_for_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has trained would end if its new dispatchers did not."""
    dispatcher = Dispatcher(None, (), 0, RetryPolicy(2, 1.0), steady(tmp_path))  # type: ignore[arg-type]
    monkeypatch.setattr(actors, "START_S", -1.0)
    dispatcher._actors.check_some_are_ready()


@pytest.mark.parametrize("part", ["_resize", "_answer"])
def test_a_dispatcher_that_fails_answers_every_share(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = Dispatcher(None, (), 0, RetryPolicy(2, 1.0), steady(tmp_path))  # type: ignore[arg-type]

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(dispatcher, part, broken)
    nothing = Batch(0, "a", (), math.inf), (None, None), 1, None
    threads = ThreadPoolExecutor(2)
    answers = [threads.submit(dispatcher.train, *nothing) for _ in range(2)]
    threads.shutdown(wait=False)
    for answer in answers:
        assert str(answer.exception(timeout=10)) == "a bug"


def test_at_the_deadline_a_deaf_trainer_costs_only_what_it_has_not_done(
    pool: RayPool, folder: Path
) -> None:
    (folder / "deaf").touch()
    began = time.monotonic()
    pool.start([arm_of(12)], began + 4)
    (result,) = pool.results()
    assert time.monotonic() - began < 30
    done = {int(path.name.split("-")[1]) for path in folder.glob("done-*")}
    retained = {o.instance for o in result.outcomes if o.status is Status.RETAINED}
    assert retained == done
    assert len(done) >= 6
    late = [o for o in result.outcomes if o.status is Status.LATE]
    assert {o.reason for o in late} == {"the cycle's deadline came first"}
    assert result.winner == max(done)


def test_rows_that_a_trainer_loses_are_trained_again(
    pool: RayPool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even if only the dispatcher that had them is left, and there is only one try more."""
    caplog.set_level(logging.INFO)
    (folder / "deadly").touch()
    monkeypatch.setattr(pool, "_size", lambda: 1)
    pool.start([arm_of(4)])
    (result,) = pool.results()
    assert (result.winner, result.tables) == (3, "rows of 3")
    assert [(o.status, o.tries) for o in result.outcomes] == [
        *[(Status.RETAINED, 1)] * 3,
        (Status.RETAINED, 2),
    ]
    assert not (folder / "deadly").exists()
    assert "a trainer process is lost and replaced: ActorDiedError" in caplog.text


def test_a_pool_that_grows_gets_dispatchers_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long they take to start: the run has trained before."""
    size = [1]
    with closing(RayPool(None, (), lambda: size[0], RetryPolicy(2, 9), steady(tmp_path))) as pool:  # type: ignore[arg-type]
        for size[0], dispatchers in ((1, ()), (2, (1, 1)), (1, (1,))):
            pool.start([arm_of(3)])
            (result,) = pool.results()
            check(result, 3)
            assert pool._groups == dispatchers
            assert len(pool._actors.all) == size[0]
            monkeypatch.setattr(actors, "START_S", -1.0)


def test_a_run_that_loses_a_trainer_and_a_dispatcher_gives_the_same_bits(tmp_path: Path) -> None:
    config = small("cycles=2", "tries=2")
    go_here(config, tmp_path / "here")
    for fault in ("kill", "dispatcher"):
        (tmp_path / fault).mkdir()
    mortal = faulty(tmp_path / "kill", "kill", [2], 1)
    go(
        config,
        tmp_path / "run",
        trainer=faulty(tmp_path / "dispatcher", "dispatcher", [4], 1, mortal),
    )
    assert len(list(tmp_path.glob("*/fault-0"))) == 2
    assert bits(tmp_path / "run", config) == bits(tmp_path / "here", config)
