"""What the driver knows of one trainer process: its batches, and when they are due.

No Ray in here: handles and references are opaque.
"""

import math
import time
from dataclasses import dataclass, field
from typing import Any

from orchestrator.pool.messages import Batch
from orchestrator.pool.progress import ArmProgress

GRACE_S = 1.0
"""How long an actor may take to notice that its time budget has ended."""


@dataclass
class Call:
    """A batch that an actor has, and the reference of its answer."""

    ref: Any
    arm: ArmProgress
    batch: Batch
    work_s: float
    """How long it should take once it is started, as far as that is known."""
    limit_s: float
    """How long it may take."""
    started: float = math.inf


@dataclass(eq=False)
class ActorHandle:
    """One actor of the pool."""

    handle: Any
    starting: Any
    """The reference of its first answer; None once that has come and it is ready."""
    given: dict[str, int] = field(default_factory=dict)
    """The cycle whose chunk and rows it has, by arm."""
    calls: list[Call] = field(default_factory=list)
    """The batch it works on, and the one in its queue."""
    batches: int = 0
    """How many batches it was given."""
    removed: bool = False
    """Whether it was stopped: whatever it still answers is ignored."""
    cores: int | None = None
    """How many trainers it has, if it is a dispatcher."""

    @property
    def width(self) -> int:
        """How many instances it trains at a time."""
        return max(self.cores or 1, 1)

    @property
    def pending(self) -> list[Any]:
        """The references of the answers it owes."""
        return [call.ref for call in self.calls] if self.starting is None else [self.starting]

    @property
    def hung_at(self) -> float:
        """When the batch that it works on counts as hung."""
        return self.calls[0].started + self.calls[0].limit_s + GRACE_S if self.calls else math.inf

    @property
    def free_at(self) -> float:
        """When it should be done with all that it has."""
        if not self.calls:
            return -math.inf
        return self.calls[0].started + sum(call.work_s for call in self.calls)

    @property
    def tasks(self) -> int:
        """How many instances it has."""
        return sum(len(call.batch.tasks) for call in self.calls)

    @property
    def works_alone(self) -> bool:
        """Whether it has an instance that must run alone, so that a loss is that instance's."""
        return any(task.alone for call in self.calls for task in call.batch.tasks)

    def add(self, call: Call) -> None:
        """Give it one more batch."""
        self.batches += 1
        self.calls.append(call)
        self._start_clock()

    def answered(self, ref: Any) -> Call:
        """Remove the call that this reference answers, and return it."""
        call = next(call for call in self.calls if call.ref == ref)
        self.calls.remove(call)
        self._start_clock()
        return call

    def _start_clock(self) -> None:
        """Time runs for the batch that it works on now."""
        if self.calls:
            self.calls[0].started = min(self.calls[0].started, time.monotonic())
