"""Small runs on a real Ray, and trainers with faults."""

import os
import signal
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from orchestrator.config.schema import RunConfig
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import CycleRecord, reproducible_part
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import Ended, run
from orchestrator.pool.messages import Task
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store, read
from trainer.chunk import Chunk
from trainer.instance import Trained
from trainer.kernel import Tables


class Heard:
    """A view that keeps what it is shown."""

    def __init__(self, stop: threading.Event | None = None, stop_after: int | None = None) -> None:
        self.records: list[CycleRecord] = []
        self.messages: list[str] = []
        self.stop, self.stop_after = stop, stop_after

    def __enter__(self) -> "Heard":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, records: Sequence[CycleRecord]) -> None:
        self.records += records
        if self.stop is not None and records and records[0].cycle == self.stop_after:
            self.stop.set()

    def say(self, message: str) -> None:
        self.messages.append(message)


def go(
    config: RunConfig,
    where: Path | str,
    actors: int = 2,
    trainer: type[TrainerActor] = TrainerActor,
    view: Heard | None = None,
    stop: threading.Event | None = None,
) -> Ended:
    store = open_store(str(where))
    start = prepare(store, config)
    view = view or Heard()
    for message in start.messages:
        view.say(message)
    policy = RetryPolicy(config.tries, config.patience_s)
    make_pool = partial(RayPool, size=lambda: actors, policy=policy, trainer=trainer)
    return run(config, store, start, [view.show], make_pool, stop)


def records(where: Path | str, arm: str) -> list[CycleRecord]:
    store = open_store(str(where))
    return [read_record(store, arm, cycle) for cycle in cycles_of(store, arm)]


def bits(where: Path | str, config: RunConfig) -> dict[str, object]:
    """All that two runs of the same bits have in common: records less the clock, model bytes."""
    store: Store = open_store(str(where))
    found: dict[str, object] = {}
    for arm in config.arms:
        for record in records(where, arm.name):
            found[f"{arm.name} {record.cycle}"] = reproducible_part(record).model_dump_json()
        for name in store.names(f"models/{arm.name}"):
            found[name + arm.name] = read(store, f"models/{arm.name}/{name}")
    return found


def faulty(folder: Path, kind: str, instances: Sequence[int], times: int) -> type[TrainerActor]:
    """Trainers of which the given instances go wrong so many times in all."""

    class Faulty(TrainerActor):
        def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
            if task.instance in instances and _first(folder, times):
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if kind == "hang":
                    time.sleep(1000)
                if kind == "memory":
                    raise MemoryError("no room for 99 GB")
                raise ValueError("a bug")
            return super().train_one(chunk, start, task, end)

    def _first(folder: Path, times: int) -> bool:
        """Whether this is one of the first `times` calls, in whatever process."""
        for i in range(times):
            try:
                (folder / f"fault-{i}").touch(exist_ok=False)
            except FileExistsError:
                continue
            return True
        return False

    return Faulty
