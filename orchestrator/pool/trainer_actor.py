"""A trainer process. It knows no config and no journal: orders in, replies out.

The best trained rows of each arm stay here until the next cycle; only the winner's are fetched.
"""

import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from divergence.rules import Rule
from orchestrator.pool.messages import Batch, BatchReply, Task
from trainer.chunk import Chunk
from trainer.instance import Buffers, Job, Trained, train, warm_up
from trainer.kernel import Tables
from trainer.outcome import Outcome, Status
from trainer.scoring import log_loss, predict, warm_up_predict


class NotHeldError(Exception):
    """This process does not hold what was asked for: it is another than was thought."""


@dataclass(slots=True)
class _Bench:
    """One arm's cycle: what it trains on, and the best so far, which lives in `room`."""

    cycle: int
    chunk: Chunk
    start: Tables
    room: Buffers
    best: Outcome | None = None
    tables: Tables | None = None


class TrainerActor:
    """Trains instances one after the other. Made into an actor by the pool."""

    def __init__(self, job: Job, rules: Sequence[Rule]) -> None:
        """Compile or load the kernels of these rules, so that no cycle waits for them."""
        pa.set_cpu_count(1)
        self.job = job
        self.benches: dict[str, _Bench] = {}
        self.turn, self.number = threading.Condition(), 0
        self.swapping = threading.Lock()
        self.spare = Buffers()
        for rule in rules:
            warm_up(job, rule)
        warm_up_predict(job.shape)

    def ready(self) -> int:
        """The process id, once everything is compiled."""
        return os.getpid()

    def train(
        self, order: Batch, chunk: Chunk | None = None, start: Tables | None = None
    ) -> BatchReply:
        """Train an order's instances, once the order before it is done.

        Chunk and rows come with an arm's first orders of a cycle.
        """
        end = time.monotonic() + order.budget_s
        with self.turn:
            # Calls may overtake one another on their way. A wait without end ends with the process.
            self.turn.wait_for(lambda: self.number == order.number)
            try:
                return self._train(order, self._bench(order.cycle, order.arm, chunk, start), end)
            finally:
                self.number += 1
                self.turn.notify_all()

    def _train(self, order: Batch, bench: _Bench, end: float) -> BatchReply:
        served = self._serve(bench) if order.serve else None
        outcomes, raised = [], {}
        for task in order.tasks:
            if time.monotonic() >= end:
                break
            try:
                trained = self.train_one(bench.chunk, bench.start, task, end)
                outcomes.append(self._keep(bench, trained))
            except Exception as error:  # whatever it is: it is this instance's, and is told
                raised[task.instance] = f"{type(error).__name__}: {error}"
        return BatchReply(tuple(outcomes), raised, served)

    def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
        """One instance, in `spare`."""
        trained = train(
            self.job,
            chunk,
            start,
            task.setting,
            task.rule,
            instance=task.instance,
            buffers=self.spare,
            stop=lambda: time.monotonic() >= end,
        )
        return replace(trained, outcome=replace(trained.outcome, tries=task.tries + 1))

    def export(self, cycle: int, arm: str, instance: int) -> Tables | None:
        """The rows of this very instance, while others are trained; None where they are gone."""
        bench = self.benches.get(arm)
        if bench is None or bench.cycle != cycle:
            return None
        with self.swapping:
            if bench.best is None or bench.best.instance != instance or bench.tables is None:
                return None
            return Buffers().copy_of(bench.tables)

    def _bench(
        self, cycle: int, arm: str, chunk: Chunk | None = None, start: Tables | None = None
    ) -> _Bench:
        """The arm's bench of this cycle, made new where it is of another and can be."""
        bench = self.benches.get(arm)
        if bench is not None and bench.cycle == cycle:
            return bench
        if chunk is None or start is None:
            raise NotHeldError(f"cycle {cycle}, arm {arm}: not begun here")
        room = Buffers() if bench is None else bench.room
        self.benches[arm] = _Bench(cycle, chunk, start, room)
        return self.benches[arm]

    def _keep(self, bench: _Bench, trained: Trained) -> Outcome:
        """Swap the room of the best with the spare one, rather than copy the rows."""
        outcome = trained.outcome
        standing = outcome.status is Status.RETAINED and math.isfinite(outcome.logloss)
        if standing and (bench.best is None or _rank(outcome) < _rank(bench.best)):
            with self.swapping:
                bench.best, bench.tables = outcome, trained.tables
                bench.room, self.spare = self.spare, bench.room
        return outcome

    def _serve(self, bench: _Bench) -> float:
        logits = predict(self.job.shape, bench.chunk, bench.start, self.spare)
        return log_loss(logits, bench.chunk.click)


def _rank(outcome: Outcome) -> tuple[float, int]:
    return outcome.logloss, outcome.instance
