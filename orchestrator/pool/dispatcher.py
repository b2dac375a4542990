"""A dispatcher: an actor with trainers of its own, which takes shares of a cycle from the driver.

The driver of a large cluster cannot call every trainer itself. It treats a dispatcher as a trainer
that works on many instances at a time; a dispatcher treats its trainers as the driver of a small
cluster does, with the same code: batches, retries, replacement, the deadline. Its trainers end with
it.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any

from divergence.rules import Rule
from orchestrator.pool.actor_pool import ActorPool
from orchestrator.pool.dispatch import dispatch
from orchestrator.pool.handle import GRACE_S, ActorHandle
from orchestrator.pool.messages import Batch, BatchReply
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.pool.retry import RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.protocol import Trainer

CALLS = 4
"""How many calls a dispatcher works on at a time: two shares, and requests for rows."""
LOOK_S = 0.005
"""How often a dispatcher looks for a new share while a trainer is idle."""


class Share(ArmProgress):
    """The instances of one call of the driver, and the answer to it."""

    def __init__(self, batch: Batch, data: tuple[Any, ...], events: int, pace: Pace) -> None:
        super().__init__(
            batch.arm,
            batch.cycle,
            batch.tasks,
            events,
            pace,
            chunk=data[0],
            start=data[1],
            won=data[2] if len(data) > 2 else None,
            serve=batch.serve,
        )
        self.deadline = time.monotonic() + batch.budget_s
        self.reply: Future[BatchReply] = Future()


class Dispatcher(ActorPool[Share, Share]):
    """Trains shares as they come, in a thread of its own. RayPool makes it a Ray actor."""

    THREADS = 3
    GRACE_S = GRACE_S / 2  # the driver waits for GRACE_S, and hears of all that is done

    def __init__(
        self,
        job: Trainer,
        rules: Sequence[Rule],
        cores: int,
        policy: RetryPolicy,
        trainer: type[TrainerActor],
    ) -> None:
        """Start as many trainers as cores, and wait until they are ready."""
        self._cores = cores
        self._inbox: SimpleQueue[Share] = SimpleQueue()
        self._unanswered: list[Share] = []
        """Those that were taken from the inbox."""
        self._lost: SimpleQueue[tuple[ActorHandle, str]] = SimpleQueue()
        """Trainers to replace, and why."""
        self._losses: list[str] = []
        """Why trainers were replaced, as far as the driver does not know it yet."""
        self._done: list[Share] = []
        super().__init__(job, rules, lambda: self._cores, policy, trainer)
        self._actors.trained = True  # the driver decides how long a run waits for its start
        self.wait_until_ready()
        Thread(target=self._work, daemon=True).start()

    # -- calls of the driver, each in a thread of Ray ----------------------------------------------

    def ready(self) -> int:
        """How many trainers are ready."""
        return len(self._actors.ready)

    def resize(self, cores: int) -> None:
        """Have so many trainers from the next cycle on."""
        self._cores = cores

    def train(
        self, batch: Batch, data: tuple[Any, ...], events: int, per_event_s: float | None
    ) -> BatchReply:
        """Train a share; `data` has the references of chunk and rows."""
        share = Share(batch, data, events, Pace(per_event_s))
        self._inbox.put(share)
        return share.reply.result()

    def export(self, cycle: int, arm: str, instance: int) -> list[Any] | None:
        """The reference of an instance's rows, which travel from the trainer to the driver; None
        where it is not the best of its share, or the trainer is gone."""
        holder = self._holder(cycle, arm, instance)
        return None if holder is None else [holder.handle.export.remote(cycle, arm, instance)]

    def lose_holder(self, cycle: int, arm: str, instance: int, reason: str) -> None:
        """The rows did not come: replace their trainer before it gets anything else."""
        holder = self._holder(cycle, arm, instance)
        if holder is not None:
            self._lost.put((holder, reason))

    def _holder(self, cycle: int, arm: str, instance: int) -> ActorHandle | None:
        """Who has the rows. An instance may have been trained again since they were lost."""
        wanted = cycle, arm, instance
        found = (s for s in reversed(self._done) if (s.cycle, s.name, s.winner) == wanted)
        share = next(found, None)
        holder = share.holder() if share else None
        return holder if isinstance(holder, ActorHandle) and not holder.removed else None

    # -- training, in one thread -------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while True:
                share = self._next_share()
                self._done = [done for done in self._done if done.cycle == share.cycle]
                self.start([share], share.deadline)
                for done in self.results():  # and of the shares that come meanwhile
                    self._answer(done)
        except Exception as error:  # whatever it is: the driver replaces this process
            for share in self._unanswered:
                share.reply.set_exception(error)
            while True:
                self._inbox.get().reply.set_exception(error)

    def _next_share(self) -> Share:
        self._unanswered.append(self._inbox.get())
        return self._unanswered[-1]

    def _answer(self, share: Share) -> None:
        result = share.result(None)
        share.chunk = share.start = share.won = None  # their room in the object store is needed
        self._done.append(share)
        ready, lost = len(self._actors.ready), tuple(self._losses)
        share.reply.set_result(BatchReply(result.outcomes, {}, result.served, ready, lost))
        self._losses.clear()
        self._unanswered.remove(share)

    def _report_loss(self, who: str, reason: str) -> None:
        self._losses.append(reason)  # the driver logs it

    def _dispatch(self) -> None:
        while not self._inbox.empty():
            self._arms.append(self._next_share())
        while not self._lost.empty():
            lost, reason = self._lost.get()
            if not lost.removed:
                self._lose(lost, reason)
        dispatch(self._actors.ready, self._arms, self._deadline, self._policy.patience_s)

    def _result(self, arm: Share, late: bool) -> Share:
        return arm

    def _wait(self, until: float | None) -> None:
        """As any pool, but look for a share meanwhile where a trainer could start it."""
        if self._arms and any(not actor.calls for actor in self._actors.ready):
            look = time.monotonic() + LOOK_S
            until = look if until is None else min(until, look)
        super()._wait(until)
