"""How long actors wait between two cycles: a pool whose actors note when they train."""

import time
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import ray

from divergence.rules import Rule
from orchestrator.pool.messages import Batch, BatchReply
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.trainer_actor import TrainerActor, _ArmWork
from trainer.protocol import Trainer

ANSWER_S = 60.0


class BatchSpan(NamedTuple):
    """When a batch was trained, by the machine's clock."""

    cycle: int
    begin: float
    end: float


class TimedActor(TrainerActor):
    """Notes when it trains."""

    def _train(self, batch: Batch, work: _ArmWork, end: float) -> BatchReply:
        begin = time.monotonic()
        reply = super()._train(batch, work, end)
        noted = self.__dict__.setdefault("noted", [])
        noted.append(BatchSpan(batch.cycle, begin, time.monotonic()))
        return reply

    def spans(self) -> list[BatchSpan]:
        """Of all batches."""
        return list(self.__dict__.get("noted", []))


class TimedPool(RayPool):
    """Keeps what its actors have noted. All are on one machine, which has one clock."""

    noted: ClassVar[list[list[BatchSpan]]] = []
    """Of the last pool, by actor."""

    def __init__(self, job: Trainer, rules: Sequence[Rule], **options: Any) -> None:
        """Actors that note when they train."""
        super().__init__(job, rules, **options, trainer=TimedActor)

    def close(self) -> None:
        """Ask the actors, then stop them."""
        calls = [actor.handle.spans.remote() for actor in self._actors.ready]
        TimedPool.noted = ray.get(calls, timeout=ANSWER_S)
        super().close()


def turns(noted: Sequence[Sequence[BatchSpan]]) -> list[float]:
    """Seconds from the end of a cycle's last instance until the next cycle trains, on average of
    the actors, for each pair of cycles."""
    spans = [span for actor in noted for span in actor]
    found = []
    for cycle in range(1, max(span.cycle for span in spans)):
        last = max(span.end for span in spans if span.cycle == cycle)
        first = [min((s.begin for s in a if s.cycle == cycle + 1), default=last) for a in noted]
        found.append(float(np.mean(first)) - last)
    return found
