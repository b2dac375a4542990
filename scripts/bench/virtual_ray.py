"""A stand-in for Ray under the pool: actors without processes, and a clock that skips idle time.

The driver's own work takes the CPU time that it really takes. What Ray's calls cost the driver is
charged to the clock, as it was measured on a real Ray; training takes a set time and no core. A
dispatcher is a model: it spends a set time on each of its instances, one after the other, and gives
them to whichever of its trainers is free first.
"""

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from orchestrator.pool.dispatcher import Dispatcher
from orchestrator.pool.messages import Batch, BatchReply, LineBatch, LineReply
from trainer.outcome import Outcome, Status


@dataclass(frozen=True)
class Costs:
    """Seconds of the driver: for a call of a trainer or of a dispatcher and each task in it, for an
    answer and each outcome in it, and for each reference in a wait."""

    submit_s: float
    share_s: float
    task_s: float
    get_s: float
    outcome_s: float
    wait_ref_s: float
    travel_s: float
    """From the driver to an actor, and back."""
    send_s: float = 0.0
    """Of a dispatcher, to give a trainer an instance."""
    record_s: float = 0.0
    """Of a dispatcher, to receive an outcome."""


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
        return Method(lambda *_: self.ray.rows(self.ray.call()))

    def _train(self, batch: Batch, *_: Any) -> Ref:
        each, tasks = self.ray.instance_s, len(batch.tasks)
        reply = BatchReply(self.ray.outcomes(batch), {}, None)
        return self.ray.answer(self, each * tasks, reply, tasks)

    @property
    def train_lines(self) -> Method:
        """As `train`, of lines."""
        return Method(self._train_lines)

    def _train_lines(self, batch: LineBatch, *_: Any) -> Ref:
        tasks = len(batch.tasks)
        reply = LineReply(self.ray.outcomes(batch), {}, {}, {}, {})
        return self.ray.answer(self, self.ray.instance_s * tasks, reply, tasks)


@dataclass
class DispatcherHandle:
    """A dispatcher, and when its thread and each of its trainers are free again."""

    ray: "VirtualRay"
    cores: int
    thread_free_at: float = 0.0
    free_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_at = [0.0] * self.cores

    @property
    def ready(self) -> Method:
        """Replies at once."""
        return Method(lambda: self.ray.answer_at(self.ray.share(), self.cores))

    @property
    def resize(self) -> Method:
        """Adds or removes trainers."""
        return Method(self._resize)

    @property
    def train(self) -> Method:
        """Trains on all its trainers and retains everything."""
        return Method(self._train)

    @property
    def export(self) -> Method:
        """The reference of the winner's rows, which its trainer copies meanwhile."""
        return Method(self._export)

    def _resize(self, cores: int) -> Ref:
        self.cores, self.free_at = cores, [0.0] * cores
        return Ref(self.ray.share(), None)

    def _train(self, batch: Batch, *_: Any) -> Ref:
        ray, costs = self.ray, self.ray.costs
        arrived = ray.share(len(batch.tasks))
        entered, last = time.process_time(), arrived
        for _task in batch.tasks:
            free = heapq.heappop(self.free_at)
            cost = costs.send_s + (costs.record_s if free else 0.0)
            self.thread_free_at = max(arrived, free, self.thread_free_at) + cost
            done = self.thread_free_at + ray.instance_s + 2 * costs.travel_s
            heapq.heappush(self.free_at, done)
            last = max(last, done)
        reply = BatchReply(ray.outcomes(batch), {}, None, self.cores)
        ray.clock.charged -= time.process_time() - entered  # not the driver's
        return ray.answer_at(last + costs.record_s, reply)

    def _export(self, *_: Any) -> Ref:
        arrived, travel_s = self.ray.share(), self.ray.costs.travel_s
        return Ref(arrived + travel_s, [self.ray.rows(arrived + travel_s)])


class VirtualRay:
    """As much of the module `ray` as the pool uses."""

    def __init__(self, costs: Costs, instance_s: float, export_s: float) -> None:
        self.costs, self.instance_s, self.export_s = costs, instance_s, export_s
        self.clock = Clock()
        self._heap: list[tuple[float, int, Ref]] = []
        self._number = itertools.count()

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        """Make a class an actor."""

        def new(kind: type, *args: Any) -> Any:
            return DispatcherHandle(self, args[2]) if kind is Dispatcher else Handle(self)

        return lambda kind: Method(partial(new, kind))

    def put(self, value: Any) -> Any:
        """Keep a value."""
        return value

    def kill(self, handle: Handle) -> None:
        """End an actor."""

    def outcomes(self, batch: Batch) -> tuple[Outcome, ...]:
        """What training gives: the later instances are the better ones."""
        each = self.instance_s
        return tuple(
            Outcome(t.instance, t.setting, Status.RETAINED, 1.0 / (1 + t.instance), 1, each)
            for t in batch.tasks
        )

    def call(self, tasks: int = 0) -> float:
        """The driver makes a call; gives when it arrives."""
        self.clock.charged += self.costs.submit_s + tasks * self.costs.task_s
        return self.clock.monotonic() + self.costs.travel_s

    def share(self, tasks: int = 0) -> float:
        """As `call`, of a dispatcher."""
        self.clock.charged += self.costs.share_s - self.costs.submit_s
        return self.call(tasks)

    def rows(self, arrived: float) -> Ref:
        """A winner's rows, which a trainer copies while it trains."""
        return Ref(arrived + self.export_s + self.costs.travel_s, object())

    def answer(self, handle: Handle, work_s: float, value: Any, tasks: int = 0) -> Ref:
        """An actor works on its calls one after the other."""
        handle.free_at = max(self.call(tasks), handle.free_at) + work_s
        return self.answer_at(handle.free_at, value)

    def answer_at(self, done_at: float, value: Any) -> Ref:
        """An answer that an actor sends at this time."""
        ref = Ref(done_at + self.costs.travel_s, value)
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
        outcomes = len(ref.value.outcomes) if isinstance(ref.value, BatchReply | LineReply) else 0
        self.clock.charged += self.costs.get_s + outcomes * self.costs.outcome_s
        self.clock.skipped += max(ref.done_at - self.clock.monotonic(), 0.0)
        ref.taken = True
        return ref.value
