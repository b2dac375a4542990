"""What the driver knows of a trainer process: what it has been given, and when that is due.

No Ray in here: handles and references are kept as they are.
"""

import math
import time
from dataclasses import dataclass, field
from typing import Any

from orchestrator.pool.messages import Batch

GRACE_S = 1.0
"""How long an actor may take to notice that its budget has ended."""


@dataclass
class Call:
    """An order that an actor has, and the reference of the answer."""

    ref: Any
    order: Batch
    work_s: float
    """How long it should take once it is begun, as far as that is known."""
    limit_s: float
    """How long it may take."""
    began: float = math.inf


@dataclass(eq=False)
class ActorHandle:
    """One actor of the pool."""

    handle: Any
    ready: Any
    """The reference of its first answer; None once that has come."""
    given: dict[str, int] = field(default_factory=dict)
    """The cycle of which it has chunk and rows, by arm."""
    calls: list[Call] = field(default_factory=list)
    """The order it works on, and the one that waits."""
    orders: int = 0
    gone: bool = False
    """Whether it was ended, and whatever it still says is of no interest."""

    @property
    def awaited(self) -> list[Any]:
        """The references of the answers it owes."""
        return [call.ref for call in self.calls] if self.ready is None else [self.ready]

    @property
    def hung_at(self) -> float:
        """When the order that it works on counts as hung."""
        return self.calls[0].began + self.calls[0].limit_s + GRACE_S if self.calls else math.inf

    @property
    def free_at(self) -> float:
        """When it should be done with all that it has."""
        if not self.calls:
            return -math.inf
        return self.calls[0].began + sum(call.work_s for call in self.calls)

    @property
    def alone(self) -> bool:
        """Whether some instance that it has must be alone there for blame to be exact."""
        return any(task.alone for call in self.calls for task in call.order.tasks)

    def take_on(self, call: Call) -> None:
        """One order more."""
        self.orders += 1
        self.calls.append(call)
        self._watch()

    def answered(self, ref: Any) -> Batch:
        """The order that this answers, which is done."""
        call = next(call for call in self.calls if call.ref == ref)
        self.calls.remove(call)
        self._watch()
        return call.order

    def _watch(self) -> None:
        """Time runs for the order that it works on now."""
        if self.calls:
            self.calls[0].began = min(self.calls[0].began, time.monotonic())
