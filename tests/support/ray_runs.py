"""Small runs on a real Ray, and trainers with faults."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from orchestrator.config.schema import LineagesSelect, RunConfig
from orchestrator.loop.run import Ended
from orchestrator.pool.lines.ray_pool import RayLinePool
from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.messages import Task
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from support.runs import Heard, go_with
from trainer.chunk import Chunk
from trainer.instance import Trained
from trainer.kernel import Tables


def go(
    config: RunConfig,
    where: Path | str,
    actors: int | Callable[[], int] = 2,
    trainer: type[TrainerActor] | None = None,
    view: Heard | None = None,
    stop: threading.Event | None = None,
) -> Ended:
    policy = RetryPolicy(config.tries, config.patience_s)
    lines = isinstance(config.search.select, LineagesSelect)
    make_pool = partial(
        RayLinePool if lines else RayPool,
        size=actors if callable(actors) else lambda: actors,
        policy=policy,
        trainer=trainer or (LineTrainer if lines else TrainerActor),  # type: ignore[arg-type]
    )
    return go_with(make_pool, config, where, view, stop)


def faulty(
    folder: Path,
    kind: str,
    instances: Sequence[int],
    times: int,
    trainer: type[TrainerActor] = TrainerActor,
) -> type[TrainerActor]:
    """Trainers of which the given instances go wrong so many times in all."""

    class Faulty(trainer):  # type: ignore[misc, valid-type]
        def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
            if task.instance in instances and _first(folder, times):
                if kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                if kind == "dispatcher":
                    _kill_a_dispatcher()
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

    def _kill_a_dispatcher() -> None:
        """One of those of this trainer's Ray, perhaps its own."""
        import psutil  # type: ignore[import-untyped]  # a part of Ray

        workers = psutil.Process().parent().children()
        next(p for p in workers if "ray::Dispatcher" in " ".join(p.cmdline())).kill()

    return Faulty
