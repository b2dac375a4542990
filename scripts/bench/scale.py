"""How many actors one driver can keep busy: the pool's own code with a kernel that sleeps.

Two parts. On a real Ray of this machine: what a call, an answer and a wait cost the driver, and a
cycle of many short instances on a few processes. Then, with those costs, the same pool on hundreds
of logical nodes whose actors are not processes (virtual_ray.py). What is not in the second
part: the network, and Ray's own head under that many nodes.

    .venv/bin/python scripts/bench/scale.py [--quick] [--readme]
"""

import argparse
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from orchestrator.pool.ray_env import local_environment

local_environment()

import ray  # noqa: E402

from divergence.rules.l2 import L2  # noqa: E402
from orchestrator.pool import actor_pool, actors, dispatch, handle, ray_pool, shares  # noqa: E402
from orchestrator.pool.lines import ray_pool as lines_pool  # noqa: E402
from orchestrator.pool.lines.progress import LinesPlan, LinesProgress  # noqa: E402
from orchestrator.pool.lines.ray_pool import RayLinePool  # noqa: E402
from orchestrator.pool.messages import Batch, BatchReply, Rebuild, Task  # noqa: E402
from orchestrator.pool.progress import ArmProgress, Pace  # noqa: E402
from orchestrator.pool.ray_pool import RayPool, groups  # noqa: E402
from orchestrator.pool.ray_start import started_ray  # noqa: E402
from orchestrator.pool.retry import RetryPolicy  # noqa: E402
from orchestrator.pool.trainer_actor import TrainerActor  # noqa: E402
from orchestrator.search.lineages import Judgement, Lineages  # noqa: E402
from scripts.bench.page import add_options, reported  # noqa: E402
from scripts.bench.virtual_ray import Clock, Costs, VirtualRay  # noqa: E402
from trainer.outcome import Outcome, Status  # noqa: E402
from trainer.setting import Setting  # noqa: E402

SETTING = Setting(1.0, 3.0, 0.5)
CORES = 8
"""Of a logical node."""
ROWS = ((10, 4), (100, 4), (1000, 2))
"""Logical nodes, and the instances that each core trains in a cycle."""
BARS = {100: 0.97, 1000: 0.90}
"""The least share of the cores that must be at work, by nodes."""
REAL_ACTORS = 8
REAL_INSTANCES = 2000
MANY = 64
"""The tasks of a call that shows what each of them costs."""
PLAYS = 3
"""How often a cycle is played on logical nodes. The quickest counts."""
NETWORK_S = 1e-4
"""The time of a message between two nodes, which this machine cannot show."""
REFS = 50
ROUNDS = 20
"""How often costs are measured. The least counts: other work on the machine only adds to it."""


class Sleeper(TrainerActor):
    """Trains nothing, in a set time."""

    def __init__(self, *_: object) -> None:
        self.alone = threading.Lock()

    def train(self, batch: Batch, *_: Any, **__: Any) -> BatchReply:
        """Sleep for each instance."""
        outcomes = []
        with self.alone:
            for task in batch.tasks:
                time.sleep(REAL_S)
                outcomes.append(Outcome(task.instance, SETTING, Status.RETAINED, 1.0, 1, REAL_S))
        return BatchReply(tuple(outcomes), {}, None)

    def export(self, cycle: int, arm: str, instance: int) -> Any:
        """A winner's rows."""
        return b"rows"


REAL_S = 0.02


class Echo:
    """Answers at once, as a dispatcher would."""

    def ready(self) -> int:
        """That it is there."""
        return 1

    def train(self, batch: Batch, *_: Any) -> BatchReply:
        """An outcome for each task."""
        done = (Outcome(t.instance, t.setting, Status.RETAINED, 1, 1, 1.0) for t in batch.tasks)
        return BatchReply(tuple(done), {}, None)

    def sleep(self) -> None:
        """Answer later."""
        time.sleep(0.01)


def main() -> None:
    """Both parts, as Markdown."""
    options = argparse.ArgumentParser(description=__doc__)
    add_options(options)
    given = options.parse_args()
    with reported("scale", given.readme, given.quick) as missed:
        with started_ray(None, REAL_ACTORS, verbose=False):
            costs = measured_costs()
            real_cycle(direct=REAL_ACTORS)
            real_cycle(direct=REAL_ACTORS // 2)
        print("\n| nodes | cores | dispatchers | instances | ideal | cycle | driver busy "
              "| dispatcher, an instance | cores at work |")  # fmt: skip
        print("|---|---|---|---|---|---|---|---|---|")
        for nodes, per_core in ROWS:
            for instance_s in (1.0, 60.0):
                at_work = virtual_cycle(costs, nodes, per_core, instance_s)
                bar = BARS.get(nodes, 0.0)
                if at_work < bar:
                    missed.append(f"{nodes} nodes, {instance_s:g} s: {at_work:.3f}, not {bar}")
        print("\nLines (`select: lineages`), without dispatchers:\n")
        print("| nodes | cores | lines of 1 s | ideal | cycle | driver busy | cores at work |")
        print("|---|---|---|---|---|---|---|")
        for nodes, per_core in ROWS:
            at_work = lines_cycle(costs, nodes, per_core)
            if at_work < BARS.get(nodes, 0.0):
                missed.append(f"lines, {nodes} nodes: {at_work:.3f}, not {BARS[nodes]}")


def measured_costs() -> Costs:
    """What Ray's calls cost the driver on this machine, in CPU time of its thread.

    That is the time they take on a machine where Ray's own threads have another core.
    """
    remote: Any = ray.remote  # its stubs lack the options of actors
    actor = remote(num_cpus=1, max_concurrency=3)(Echo).remote()
    ray.get(actor.ready.remote())
    shared = ray.put(b"rows")
    one, many = (Batch(0, "a", tuple(some_tasks(n)), 1.0) for n in (1, MANY))
    call_s, answer_s = round_trips(actor, one, shared, shared)
    share_s, _ = round_trips(actor, one, (shared, shared), 1, None)
    shares_s, answers_s = round_trips(actor, many, (shared, shared), 1, None)
    task_s, outcome_s = (shares_s - share_s) / (MANY - 1), (answers_s - answer_s) / (MANY - 1)
    wait_s = min(wait_for_each(actor) for _ in range(ROUNDS))
    travel_s = (min(there_and_back(actor) for _ in range(REFS * ROUNDS)) - call_s - answer_s) / 2
    ray.kill(actor)
    costs = (call_s - task_s, share_s - task_s, task_s, answer_s - outcome_s, outcome_s, wait_s,
             max(travel_s, 0.0) + NETWORK_S)  # fmt: skip
    names = ("a call of a trainer", "of a dispatcher", "each instance in it", "an answer",
             "each outcome in it", "each reference in a wait",
             f"the way to an actor with {NETWORK_S * 1e6:.0f} of a network")  # fmt: skip
    print("Ray on this machine, in µs of CPU time of the driver's thread: "
          + ", ".join(f"{n} {c * 1e6:.3g}" for n, c in zip(names, costs, strict=True)),
          end="\n\n")  # fmt: skip
    return Costs(*costs)


def round_trips(actor: Any, *args: Any) -> tuple[float, float]:
    """CPU seconds of a call with these arguments, and of its answer."""
    calls, answers = [], []
    for _ in range(ROUNDS):
        began = time.thread_time()
        refs = [actor.train.remote(*args) for _ in range(REFS)]
        calls.append(time.thread_time() - began)
        ray.wait(refs, num_returns=REFS)
        began = time.thread_time()
        for ref in refs:
            ray.get(ref)
        answers.append(time.thread_time() - began)
    return min(calls) / REFS, min(answers) / REFS


def there_and_back(actor: Any) -> float:
    """Seconds from a call to its answer."""
    began = time.perf_counter()
    ray.get(actor.ready.remote())
    return time.perf_counter() - began


def wait_for_each(actor: Any) -> float:
    """CPU seconds of a wait for each reference in it, while none is there."""
    refs = [actor.sleep.remote() for _ in range(REFS)]
    began = time.thread_time()
    for _ in range(20):
        ray.wait(refs, num_returns=1, timeout=0)
    waited = time.thread_time() - began
    ray.wait(refs, num_returns=REFS)
    return waited / 20 / REFS


def with_dispatchers(costs: Costs, cores: int) -> Costs:
    """Add what an instance costs a dispatcher: its pool's own code, played with these costs."""
    trainers = groups(cores)[0]
    send_s = played(costs, trainers, 1, 1.0)[0] / trainers
    both_s = played(costs, trainers, 4, 1.0)[2] / (4 * trainers)
    return replace(costs, send_s=send_s, record_s=both_s - send_s)


def some_tasks(instances: int) -> list[Task]:
    """Instances that all differ."""
    return [Task(i, Setting(i + 0.1, i + 0.2, i + 0.3), L2(i + 0.4)) for i in range(instances)]


def a_round(instances: int) -> ArmProgress:
    """A cycle of one arm."""
    return ArmProgress(
        "a", 0, some_tasks(instances), 1, Pace(), chunk=None, start=None, serve=False
    )


def real_cycle(direct: int) -> None:
    """Thousands of instances through a real Ray, against the time they sleep.

    The driver calls up to `direct` processes itself.
    """
    before, ray_pool.DIRECT = ray_pool.DIRECT, direct
    with closing(RayPool(None, (), lambda: REAL_ACTORS, RetryPolicy(3, 30), Sleeper)) as few:  # type: ignore[arg-type]
        few.wait_until_ready()
        began, cpu = time.perf_counter(), time.process_time()
        few.start([a_round(REAL_INSTANCES)])
        (result,) = few.results()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    number = len(groups(REAL_ACTORS)) if direct < REAL_ACTORS else 0
    ray_pool.DIRECT = before
    assert len(result.outcomes) == REAL_INSTANCES
    ideal = REAL_INSTANCES * REAL_S / REAL_ACTORS
    print(f"{REAL_INSTANCES} instances of {REAL_S * 1e3:.0f} ms on {REAL_ACTORS} processes"
          f"{f' of {number} dispatchers' if number else ''}: {took:.2f} s, ideally {ideal:.2f} s; "
          f"the driver used {cpu:.2f} s of CPU\n")  # fmt: skip


def virtual_cycle(costs: Costs, nodes: int, per_core: int, instance_s: float) -> float:
    """A cycle on this many logical nodes, as a row of the table; gives the share of the cores that
    is at work."""
    cores, ideal = nodes * CORES, per_core * instance_s
    costs, sizes = with_dispatchers(costs, cores), groups(cores)
    plays = [played(costs, cores, per_core, instance_s) for _ in range(PLAYS)]
    _, took, busy = min(plays, key=lambda play: play[1])
    print(f"| {nodes:,} | {cores:,} | {len(sizes)} of {sizes[0]} "
          f"| {cores * per_core:,} of {instance_s:g} s | {ideal:.0f} s "
          f"| {took:.2f} s | {busy:.2f} s | {(costs.send_s + costs.record_s) * 1e3:.2f} ms "
          f"| {ideal / took:.1%} |", flush=True)  # fmt: skip
    return ideal / took


def played(
    costs: Costs, cores: int, per_core: int, instance_s: float
) -> tuple[float, float, float]:
    """For a cycle on so many logical cores: the seconds until all are busy, until its end, and
    those for which the driver is busy."""
    virtual = VirtualRay(costs, instance_s, export_s=0.1)
    with under_the_pool(virtual):
        many = RayPool(None, (), lambda: cores, RetryPolicy(3, 1e6))  # type: ignore[arg-type]
        many.wait_until_ready()
        return timed(virtual.clock, many, a_round(cores * per_core))


def lines_cycle(costs: Costs, nodes: int, per_core: int) -> float:
    """As `virtual_cycle`, of lines of 1 s, which the driver sends to each actor in one call."""
    virtual, cores = VirtualRay(costs, 1.0, export_s=0.1), nodes * CORES
    plays = []
    with under_the_pool(virtual):
        many = RayLinePool(None, (), lambda: cores, RetryPolicy(3, 1e6))  # type: ignore[arg-type]
        many.wait_until_ready()
        for cycle in range(1 + PLAYS):
            plays.append(timed(virtual.clock, many, some_lines(cycle, cores * per_core)))
    _, took, busy = min(plays[1:], key=lambda play: play[1])  # the first one places the lines
    print(f"| {nodes:,} | {cores:,} | {cores * per_core:,} | {per_core} s | {took:.2f} s "
          f"| {busy:.2f} s | {per_core / took:.1%} |", flush=True)  # fmt: skip
    return per_core / took


def some_lines(cycle: int, number: int) -> LinesProgress:
    """A cycle of one arm, of which no line is champion."""
    nobody = Judgement(Lineages((), None), (), "")
    plan = LinesPlan(
        "a", cycle, some_tasks(number), 1, None, None, cycle - 1, nobody.state, frozenset(), {},  # type: ignore[arg-type]
        recipe=lambda line: (Rebuild(line, -1, ()), None, {}), judge=lambda *_: nobody,
        served=lambda _: None,
    )  # fmt: skip
    return LinesProgress(plan, Pace())


def timed(clock: Clock, pool: Any, arm: ArmProgress) -> tuple[float, float, float]:
    """A cycle of this arm: the seconds until all is sent, until its end, and of work."""
    gc.collect()
    began, idle = clock.monotonic(), clock.skipped
    pool.start([arm])
    sent = clock.monotonic() - began
    (result,) = pool.results()
    took = clock.monotonic() - began
    assert all(outcome.status is Status.RETAINED for outcome in result.outcomes)
    return sent, took, took - (clock.skipped - idle)


@contextmanager
def under_the_pool(virtual: VirtualRay) -> Iterator[None]:
    """Replace Ray and the clock in the modules of the pool, within the block."""
    before = ray, time
    _put_under(virtual, virtual.clock)
    try:
        yield
    finally:
        _put_under(*before)


def _put_under(some_ray: Any, clock: Any) -> None:
    for module in (ray_pool, lines_pool, actor_pool, actors):
        module.ray = some_ray  # type: ignore[attr-defined]
    for module in (actor_pool, actors, dispatch, shares, lines_pool, handle):
        module.time = clock  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
