"""Instances that go wrong, deadlines, memory, object stores."""

import os
import threading
import time
from pathlib import Path

import pytest
import ray

from orchestrator.journal.record import count_outcomes
from orchestrator.loop.run import Ending
from orchestrator.pool.messages import Batch, Task
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.trainer_actor import NotHeldError, TrainerActor
from support.configs import small
from support.ray_runs import faulty, go
from support.runs import bits, go_here, records
from trainer.chunk import Chunk
from trainer.instance import Trained
from trainer.kernel import Tables
from trainer.outcome import Status

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]


IMPATIENT = small("cycles=2", "patience_s=3", "tries=2")


@pytest.fixture(scope="module")
def without_faults(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("without")
    go(IMPATIENT, folder)
    return bits(folder, IMPATIENT)


@pytest.mark.parametrize("kind", ["raise", "hang"])
def test_an_instance_that_goes_wrong_once_is_tried_again(
    without_faults: dict[str, object], tmp_path: Path, kind: str
) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    go(IMPATIENT, tmp_path / "run", trainer=faulty(faults, kind, [2], 1))
    assert bits(tmp_path / "run", IMPATIENT) == without_faults


@pytest.mark.parametrize(
    ("kind", "reason"), [("kill", "ActorDiedError"), ("memory", "MemoryError: no")]
)
def test_a_poisonous_setting_is_given_up(tmp_path: Path, kind: str, reason: str) -> None:
    config = small("cycles=1", "tries=2", "arms=[{name: only, rule: l2}]")
    faults = tmp_path / "faults"
    faults.mkdir()
    assert go(config, tmp_path / "run", trainer=faulty(faults, kind, [2], 99)).cycle == 1
    (record,) = records(tmp_path / "run", "only")
    assert record.outcomes[2].status is Status.FAILED
    assert record.outcomes[2].tries == 2
    assert reason in record.outcomes[2].reason
    assert record.outcomes[2].reason.endswith("(2 tries)")
    count = count_outcomes(record)
    assert (count.failed, count.retained + count.diverged) == (1, 5)
    assert count.retained_fraction == count.retained / (count.retained + count.diverged)


def test_at_the_deadline_the_best_of_the_finished_wins(tmp_path: Path) -> None:
    class Slow(TrainerActor):
        """From the third on, instances take longer than any cycle; some even do not listen."""

        def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
            if task.instance == 3:
                time.sleep(1000)
            while task.instance > 1 and time.monotonic() < end:
                time.sleep(0.01)
            return super().train_one(chunk, start, task, end)

    config = small("cycles=2", "deadline_s=8", "arms=[{name: only, rule: l2}]",
                   "search.ranges.eta0={low: 0.03, high: 0.1}")  # fmt: skip
    began = time.monotonic()
    assert go(config, tmp_path, trainer=Slow).ending is Ending.COMPLETE
    assert time.monotonic() - began < 200  # it does not wait for the one that sleeps
    for record in records(tmp_path, "only"):
        statuses = [outcome.status for outcome in record.outcomes]
        assert statuses == [Status.RETAINED] * 2 + [Status.LATE] * 4
        assert record.winner in (0, 1)
        assert count_outcomes(record).retained_fraction == 1.0


def test_an_actor_gives_out_only_what_it_holds(tmp_path: Path) -> None:
    class Kept(TrainerActor):
        def __init__(self) -> None:
            self.arms, self.turn, self.batches_done = {}, threading.Condition(), 0

    assert Kept().export(3, "a", 0) is None
    with pytest.raises(NotHeldError, match="cycle 3, arm a: not started here"):
        Kept().train(Batch(3, "a", (), 1.0))


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    shared = int(Path(f"/proc/{pid}/statm").read_text().split()[2])  # Ray's store is mapped
    return (pages - shared) * os.sysconf("SC_PAGE_SIZE")


def test_memory_stays_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[RayPool] = []
    start = RayPool.__init__

    def kept(self: RayPool, *args: object, **more: object) -> None:
        pools.append(self)
        start(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(RayPool, "__init__", kept)
    sizes: list[tuple[int, int, int]] = []

    class Watching:
        def __enter__(self) -> "Watching":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def say(self, message: str) -> None:
            raise AssertionError(message)

        def show(self, records: object) -> None:
            if records and records[0].cycle % 50 == 49:  # type: ignore[index]
                actors = sum(resident(p) for p in pools[0].process_ids())
                used = ray.cluster_resources()["object_store_memory"]
                used -= ray.available_resources().get("object_store_memory", 0)
                sizes.append((resident(os.getpid()), actors, int(used)))

    config = small("cycles=300", "search.instances=2", "source.events_per_cycle=60")
    go(config, tmp_path, view=Watching())  # type: ignore[arg-type]
    assert len(sizes) == 6
    driver, actors, _ = (end - begin for begin, end in zip(sizes[2], sizes[5], strict=True))
    assert driver < 12 * 2**20, sizes
    assert actors < 12 * 2**20, sizes
    assert sizes[5][2] < 50 * 2**20, sizes


def test_a_run_on_an_object_store(bucket: str, tmp_path: Path) -> None:
    go(small("cycles=2"), bucket)
    go_here(small("cycles=3"), bucket)
    go_here(small("cycles=3"), tmp_path)
    assert bits(bucket, small()) == bits(tmp_path, small())
