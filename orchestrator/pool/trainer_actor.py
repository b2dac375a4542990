"""A trainer process. It knows no config and no journal: batches in, replies out.

The best trained rows of each arm stay here until the next cycle; only the winner's are fetched.
"""

import math
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from divergence.rules import Rule
from orchestrator.pool.messages import Batch, BatchReply, Task
from trainer.draft import Draft
from trainer.instance import Buffers, Trained
from trainer.offset import Offset
from trainer.outcome import Outcome, Status
from trainer.protocol import AnyChunk, Trainer


class NotHeldError(Exception):
    """This process does not have the chunk of a batch: the driver took it for another."""


@dataclass(slots=True)
class _ArmWork:
    """One arm's cycle: its data, and the best instance so far, whose rows live in `buffers`.

    A draft is completed in `room`.
    """

    cycle: int
    chunk: AnyChunk
    start: Any
    buffers: Buffers
    room: Buffers
    best: Outcome | None = None
    tables: Any = None


class TrainerActor:
    """Trains instances one after the other. The pool makes it a Ray actor."""

    in_place = False
    """Whether `train_one` trains in the rows that it is given, or in a copy."""

    def __init__(self, trainer: Trainer, rules: Sequence[Rule]) -> None:
        """Compile or load the kernels of these rules, so that no cycle waits for them."""
        pa.set_cpu_count(1)
        self.trainer = trainer
        self.arms: dict[str, _ArmWork] = {}
        self.turn, self.batches_done = threading.Condition(), 0
        self.swapping = threading.Lock()
        self.spare = Buffers()
        trainer.warm_up(rules, lines=self.in_place)

    def ready(self) -> int:
        """The process id, once everything is compiled."""
        return os.getpid()

    def train(
        self,
        batch: Batch,
        chunk: AnyChunk | None = None,
        start: Any = None,
        won: Any = None,
    ) -> BatchReply:
        """Train a batch, once the batch before it is done.

        Chunk and rows come with an arm's first batches of a cycle: all rows, or a draft and the
        rows that complete it.
        """
        end = time.monotonic() + batch.budget_s
        with self.turn:
            # Calls may overtake one another on their way. An endless wait ends with the process.
            self.turn.wait_for(lambda: self.batches_done == batch.number)
            try:
                work = self._work(batch.cycle, batch.arm, chunk, start, won)
                return self._train(batch, work, end)
            finally:
                self.batches_done += 1
                self.turn.notify_all()

    def _train(self, batch: Batch, work: _ArmWork, end: float) -> BatchReply:
        served = self._served_logloss(work) if batch.serve else None
        outcomes, raised = [], {}
        for task in batch.tasks:
            if time.monotonic() >= end:
                break
            try:
                trained = self.train_one(work.chunk, work.start, task, end)
                outcomes.append(self._keep_if_best(work, trained))
            except Exception as error:  # whatever it is: this instance fails, with the reason
                raised[task.instance] = f"{type(error).__name__}: {error}"
        return BatchReply(tuple(outcomes), raised, served)

    def train_one(self, chunk: AnyChunk, start: Any, task: Task, end: float) -> Trained:
        """Train one instance in the spare buffers."""
        trained = self.trainer.train(
            chunk,
            start,
            task.setting,
            task.rule,
            instance=task.instance,
            buffers=self.spare,
            stop=lambda: time.monotonic() >= end,
            in_place=self.in_place,
        )
        return replace(trained, outcome=replace(trained.outcome, tries=task.tries + 1))

    def export(self, cycle: int, arm: str, instance: int) -> Any:
        """A copy of this instance's rows, also while others are trained; None where it is not the
        best one here."""
        work = self.arms.get(arm)
        if work is None or work.cycle != cycle:
            return None
        with self.swapping:
            if work.best is None or work.best.instance != instance or work.tables is None:
                return None
            return self.trainer.copy_of(work.tables)

    def _work(
        self,
        cycle: int,
        arm: str,
        chunk: AnyChunk | None = None,
        start: Any = None,
        won: Any = None,
    ) -> _ArmWork:
        """The arm's work of this cycle, made from chunk and rows if it is new."""
        work = self.arms.get(arm)
        if work is not None and work.cycle == cycle:
            return work
        if chunk is None or start is None:
            raise NotHeldError(f"cycle {cycle}, arm {arm}: not started here")
        buffers, room = (Buffers(), Buffers()) if work is None else (work.buffers, work.room)
        if isinstance(start, Draft):
            assert won is not None
            assert isinstance(self.trainer, Offset), "drafts are of OFFSET's rows"
            start = start.completed(won, self.trainer.job.shape, room)
        self.arms[arm] = _ArmWork(cycle, chunk, start, buffers, room)
        return self.arms[arm]

    def _keep_if_best(self, work: _ArmWork, trained: Trained) -> Outcome:
        """Swap the best one's buffers with the spare ones instead of copying rows."""
        outcome = trained.outcome
        valid = outcome.status is Status.RETAINED and math.isfinite(outcome.logloss)
        if valid and (work.best is None or _rank(outcome) < _rank(work.best)):
            with self.swapping:
                work.best, work.tables = outcome, trained.tables
                work.buffers, self.spare = self.spare, work.buffers
        return outcome

    def _served_logloss(self, work: _ArmWork) -> float:
        return self.trainer.served_logloss(work.chunk, work.start, self.spare)


def _rank(outcome: Outcome) -> tuple[float, int]:
    return outcome.logloss, outcome.instance
