"""A stand-in for Ray under the pool: actors without processes, and a clock that skips idle time.

The driver's own work takes the CPU time that it really takes. What Ray's calls cost the driver is
charged to the clock, as it was measured on a real Ray; training takes a set time and no core.
"""

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.pool.messages import Batch, BatchReply
from trainer.outcome import Outcome, Status


@dataclass(frozen=True)
class Costs:
    """Seconds of the driver: for a call, for an answer, and for each reference in a wait."""

    submit_s: float
    get_s: float
    wait_ref_s: float
    travel_s: float = 5e-4
    """From the driver to an actor, and back."""


class Clock:
    """The driver's CPU time, plus the idle time skipped and the costs charged."""

    def __init__(self) -> None:
        self.skipped, self.charged = 0.0, 0.0
        self._began = time.process_time()

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return time.process_time() - self._began + self.skipped + self.charged


@dataclass(eq=False)
class Ref:
    """A reply that is still to come."""

    done_at: float
    value: Any
    taken: bool = False


@dataclass
class Method:
    """What `handle.method` is."""

    call: Callable[..., Ref]

    def remote(self, *args: Any) -> Ref:
        """Call it."""
        return self.call(*args)


@dataclass
class Handle:
    """An actor, and when it is free again."""

    ray: "VirtualRay"
    free_at: float = 0.0

    @property
    def ready(self) -> Method:
        """Replies at once."""
        return Method(lambda: self.ray.answer(self, 0.0, 1))

    @property
    def train(self) -> Method:
        """Takes its time and retains everything."""
        return Method(self._train)

    @property
    def export(self) -> Method:
        """The winner's rows."""
        return Method(lambda *_: self.ray.answer(self, self.ray.export_s, object()))

    def _train(self, batch: Batch, *_: Any) -> Ref:
        each = self.ray.instance_s
        outcomes = tuple(
            Outcome(t.instance, t.setting, Status.RETAINED, 1.0 / (1 + t.instance), 1, each)
            for t in batch.tasks
        )
        return self.ray.answer(self, each * len(batch.tasks), BatchReply(outcomes, {}, None))


class VirtualRay:
    """As much of the module `ray` as the pool uses."""

    def __init__(self, costs: Costs, instance_s: float, export_s: float) -> None:
        self.costs, self.instance_s, self.export_s = costs, instance_s, export_s
        self.clock = Clock()
        self.calls = 0
        self._heap: list[tuple[float, int, Ref]] = []
        self._number = itertools.count()

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        """Make a class an actor."""
        return lambda _: Method(lambda *_: Handle(self))  # type: ignore[arg-type]

    def put(self, value: Any) -> Any:
        """Keep a value."""
        return value

    def kill(self, handle: Handle) -> None:
        """End an actor."""

    def answer(self, handle: Handle, work_s: float, value: Any) -> Ref:
        """An actor works on its calls one after the other."""
        self.calls += 1
        self.clock.charged += self.costs.submit_s
        begin = max(self.clock.monotonic() + self.costs.travel_s, handle.free_at)
        handle.free_at = begin + work_s
        ref = Ref(handle.free_at + self.costs.travel_s, value)
        heapq.heappush(self._heap, (ref.done_at, next(self._number), ref))
        return ref

    def wait(
        self, refs: Sequence[Ref], num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Ref], list[Ref]]:
        """Those that are done, after idling until one is."""
        entered = time.process_time()
        self.clock.charged += self.costs.wait_ref_s * len(refs)
        while self._heap and self._heap[0][2].taken:
            heapq.heappop(self._heap)
        now = self.clock.monotonic()
        if self._heap and self._heap[0][0] > now:
            idle = self._heap[0][0] - now
            self.clock.skipped += idle if timeout is None else min(idle, timeout)
            now = self.clock.monotonic()
        done: list[Ref] = []
        while self._heap and self._heap[0][0] <= now and len(done) < num_returns:
            ref = heapq.heappop(self._heap)[2]
            if not ref.taken:
                done.append(ref)
        replied = set(done)
        pending = [ref for ref in refs if ref not in replied]
        self.clock.charged -= time.process_time() - entered  # its costs are in wait_ref_s
        return done, pending

    def get(self, ref: Ref, timeout: float | None = None) -> Any:
        """The answer, waited for."""
        self.clock.charged += self.costs.get_s
        self.clock.skipped += max(ref.done_at - self.clock.monotonic(), 0.0)
        ref.taken = True
        return ref.value
