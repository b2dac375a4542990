"""One arm's instances in one cycle: which wait, which are done, which leads. No Ray in here."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.pool.messages import (
    ArmResult,
    Batch,
    BatchReply,
    Task,
)
from orchestrator.pool.retry import retry_or_fail, without_result
from orchestrator.search.selection import select
from trainer.outcome import Outcome, Status

SMOOTHING = 0.3


@dataclass
class Pace:
    """Seconds that an arm's instances take for an event, measured as they finish."""

    per_event_s: float | None = None

    def learn(self, outcome: Outcome) -> None:
        """Update it with an instance that has finished."""
        if outcome.events_done == 0:
            return
        now = outcome.seconds / outcome.events_done
        old = self.per_event_s
        self.per_event_s = now if old is None else old + SMOOTHING * (now - old)


class ArmProgress:
    """What is known of an arm's cycle. `chunk`, `start` and `won` are passed on to actors unseen.

    Where `start` is a draft, `won` has the rows that complete it.
    """

    def __init__(
        self,
        name: str,
        cycle: int,
        tasks: Sequence[Task],
        events: int,
        pace: Pace,
        *,
        chunk: Any,
        start: Any,
        won: Any = None,
        serve: bool,
    ) -> None:
        self.name, self.cycle, self.events, self.pace = name, cycle, events, pace
        self.chunk, self.start, self.won = chunk, start, won
        self._serve = serve
        """Whether a batch still has to ask for the served log-loss."""
        self._closing = False
        self.waiting = deque(tasks)
        self._tasks = {task.instance: task for task in tasks}
        self._done: dict[int, Outcome] = {}
        self._leader: int | None = None
        self._holders: dict[int, object] = {}
        self._served: float | None = None
        self._out = 0
        self._shares_lost: Counter[int] = Counter()
        """How often an instance was lost with a dispatcher."""
        self.request: tuple[int, Any] | None = None
        """The instance whose rows were requested, and the reference of the answer."""

    @property
    def data(self) -> tuple[Any, ...]:
        """What an actor needs once in a cycle."""
        return (self.chunk, self.start, *(() if self.won is None else (self.won,)))

    @property
    def unfinished(self) -> bool:
        """Whether some instance has no outcome yet."""
        return len(self._done) < len(self._tasks)

    @property
    def nearly_done(self) -> bool:
        """Whether only one batch is still out: the instance that leads now will probably win."""
        return self._out == 1 and not self.waiting

    @property
    def seconds(self) -> float | None:
        """What one instance should take."""
        pace = self.pace.per_event_s
        return None if pace is None else pace * self.events

    @property
    def winner(self) -> int | None:
        """The best instance of those that are done."""
        return self._leader

    def holder(self) -> object:
        """The actor that has the winner's rows."""
        return None if self.winner is None else self._holders.get(self.winner)

    def next_batch(self, count: int, budget_s: float, number: int = 0) -> Batch:
        """The next batch. The first one asks for the served log-loss, too."""
        tasks = tuple(self.waiting.popleft() for _ in range(count))
        serve, self._serve = self._serve, False
        self._out += 1
        return Batch(self.cycle, self.name, tasks, budget_s, number, serve)

    def avoids(self, actor: object) -> bool:
        """Whether the next task raised in this actor, or was not done there in time."""
        return self.waiting[0].alone and self._holders.get(self.waiting[0].instance) is actor

    def record(self, batch: Batch, reply: BatchReply, holder: object, tries: int) -> None:
        """Record a reply. An instance without an outcome, though there was time, is lost."""
        self._out -= 1
        self._served = reply.served if batch.serve else self._served
        decided = {
            o.instance: o for o in reply.outcomes if self._closing or o.status is not Status.LATE
        }
        for task in batch.tasks:
            self._holders[task.instance] = holder
            if task.instance in decided:
                self._done[task.instance] = decided[task.instance]
                self.pace.learn(decided[task.instance])
            elif task.instance in reply.raised:
                self._lose([task], reply.raised[task.instance], tries)
            elif self._closing:
                continue  # it is late
            elif len(batch.tasks) == 1:
                self._lose([task], f"not done in {batch.budget_s:.3g} s", tries)
            else:  # others may have used up its time
                self._try_alone(task)
        leader = [] if self._leader is None else [self._done[self._leader]]
        self._leader = select([*leader, *decided.values()])

    def lose(self, batch: Batch, reason: str, tries: int) -> None:
        """The batch is lost with its process."""
        self._take_back(batch)
        self._lose(batch.tasks, reason, tries)

    def lose_share(self, batch: Batch, reason: str, tries: int) -> None:
        """The batch is lost with its dispatcher. That is no try of any instance, because it may be
        the fault of another; but an instance that is lost more than `tries` times fails."""
        self._take_back(batch)
        if self._closing:
            return
        self._shares_lost.update(task.instance for task in batch.tasks)
        for task in batch.tasks:
            lost = self._shares_lost[task.instance]
            if lost <= tries:
                self._try_alone(task)
            else:
                why = f"its dispatcher was lost {lost} times: {reason}"
                self._done[task.instance] = without_result(task, Status.FAILED, why)

    def put_back(self, batch: Batch) -> None:
        """The batch is lost with its process, which had not started it."""
        self._take_back(batch)
        if not self._closing:
            self.waiting.extendleft(reversed(batch.tasks))

    def lose_winner(self, tries: int, again: bool) -> None:
        """As `lose_rows`, of the winner."""
        winner, self.request = self.winner, None
        if winner is not None:
            self.lose_rows(winner, tries, again)

    def lose_rows(self, instance: int, tries: int, again: bool) -> None:
        """An instance's rows are lost: train it again, or fail it where there is no time."""
        del self._done[instance]
        self._leader = select(self._done.values())
        reason = "its process ended with the trained rows"
        self._lose([self._tasks[instance]], reason, tries if again else 1)

    def close(self) -> None:
        """The deadline has passed: dispatch nothing more and retry nothing."""
        self._closing = True
        self.waiting.clear()

    def mark_late(self) -> None:
        """Instances without an outcome after the deadline are late."""
        for task in self._tasks.values():
            if task.instance not in self._done:
                self._done[task.instance] = without_result(
                    task, Status.LATE, "the cycle's deadline came first"
                )

    def result(self, tables: Any, shared: Any = None) -> ArmResult:
        """The result, once every instance has an outcome."""
        outcomes = tuple(self._done[i] for i in sorted(self._done))
        return ArmResult(self.name, outcomes, self.winner, tables, self._served, shared)

    def _take_back(self, batch: Batch) -> None:
        self._out -= 1
        self._serve = self._serve or batch.serve

    def _try_alone(self, task: Task) -> None:
        self._tasks[task.instance] = replace(task, alone=True)
        self.waiting.append(self._tasks[task.instance])

    def _lose(self, tasks: Sequence[Task], reason: str, tries: int) -> None:
        if self._closing and tries > 1:
            return
        again, failed = retry_or_fail(tasks, reason, tries)
        self._tasks |= {task.instance: task for task in again}
        self.waiting.extend(again)
        self._done |= {outcome.instance: outcome for outcome in failed}
