"""How many actors one driver can keep busy: the pool's own code with a kernel that sleeps.

Two parts. On a real Ray of this machine: what a call, an answer and a wait cost the driver, and a
cycle of many short instances on a few processes. Then, with those costs, the same pool on hundreds
of logical nodes whose actors are not processes (virtual_ray.py). What is not in the second
part: the network, and Ray's own head under that many nodes.

    .venv/bin/python scripts/bench/scale.py [--quick] [--readme]
"""

import argparse
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from orchestrator.pool.ray_env import local_environment

local_environment()

import ray  # noqa: E402

from orchestrator.pool import actor_pool, actors, dispatch, handle, ray_pool  # noqa: E402
from orchestrator.pool.messages import Batch, BatchReply, Task  # noqa: E402
from orchestrator.pool.progress import ArmProgress, Pace  # noqa: E402
from orchestrator.pool.ray_pool import RayPool  # noqa: E402
from orchestrator.pool.ray_start import started_ray  # noqa: E402
from orchestrator.pool.retry import RetryPolicy  # noqa: E402
from orchestrator.pool.trainer_actor import TrainerActor  # noqa: E402
from scripts.bench.page import add_options, reported  # noqa: E402
from scripts.bench.virtual_ray import Costs, VirtualRay  # noqa: E402
from trainer.outcome import Outcome, Status  # noqa: E402
from trainer.setting import Setting  # noqa: E402

SETTING = Setting(1.0, 3.0, 0.5)
CORES = 8
"""Of a logical node."""
ROWS = ((10, 4), (100, 4), (1000, 2))
"""Logical nodes, and the instances that each core trains in a cycle."""
REAL_ACTORS = 8
REAL_INSTANCES = 2000
REFS = 2000


class Sleeper(TrainerActor):
    """Trains nothing, in a set time."""

    def __init__(self, *_: object) -> None:
        self.alone = threading.Lock()

    def train(self, batch: Batch, chunk: Any = None, start: Any = None) -> BatchReply:
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


def main() -> None:
    """Both parts, as Markdown."""
    options = argparse.ArgumentParser(description=__doc__)
    add_options(options)
    given = options.parse_args()
    with reported("scale", given.readme, given.quick):
        with started_ray(None, REAL_ACTORS, verbose=False):
            costs = measured_costs()
            real_cycle()
        print("\n| nodes | cores | instances | ideal | cycle | driver busy | cores at work |")
        print("|---|---|---|---|---|---|---|")
        for nodes, per_core in ROWS[:2] if given.quick else ROWS:
            for instance_s in (1.0, 60.0):
                virtual_cycle(costs, nodes, per_core, instance_s)


def measured_costs() -> Costs:
    """What Ray's calls cost the driver on this machine."""
    remote: Any = ray.remote  # its stubs lack the options of actors
    actor = remote(num_cpus=1, max_concurrency=3)(Sleeper).remote()
    ray.get(actor.ready.remote())
    blocked = remote(num_cpus=1)(Sleeper).remote()
    batch = Batch(0, "a", (Task(0, SETTING, None),), 1.0)
    began = time.perf_counter()
    refs = [blocked.train.remote(batch) for _ in range(REFS)]
    submit_s = (time.perf_counter() - began) / REFS
    began = time.perf_counter()
    for _ in range(20):
        ray.wait(refs, num_returns=1, timeout=0)
    wait_s = (time.perf_counter() - began) / 20 / REFS
    done = [actor.ready.remote() for _ in range(300)]
    ray.wait(done, num_returns=len(done))
    began = time.perf_counter()
    for ref in done:
        ray.get(ref)
    get_s = (time.perf_counter() - began) / len(done)
    ray.kill(blocked)
    ray.kill(actor)
    print(f"Ray on this machine: a call {submit_s * 1e6:.0f} µs, an answer {get_s * 1e6:.0f} µs, "
          f"a wait {wait_s * 1e6:.2f} µs for each reference in it")  # fmt: skip
    return Costs(submit_s, get_s, wait_s)


def a_round(instances: int) -> ArmProgress:
    """A cycle of one arm."""
    tasks = [Task(i, SETTING, None) for i in range(instances)]
    return ArmProgress("a", 0, tasks, 1, Pace(), chunk=None, start=None, serve=False)


def real_cycle() -> None:
    """Thousands of instances through a real Ray, against the time they sleep."""
    with closing(RayPool(None, (), lambda: REAL_ACTORS, RetryPolicy(3, 30), Sleeper)) as few:  # type: ignore[arg-type]
        few.wait_until_ready()
        began, cpu = time.perf_counter(), time.process_time()
        few.start([a_round(REAL_INSTANCES)])
        (result,) = few.results()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert len(result.outcomes) == REAL_INSTANCES
    ideal = REAL_INSTANCES * REAL_S / REAL_ACTORS
    print(f"{REAL_INSTANCES} instances of {REAL_S * 1e3:.0f} ms on {REAL_ACTORS} processes: "
          f"{took:.2f} s, ideally {ideal:.2f} s; the driver used {cpu:.2f} s of CPU")  # fmt: skip


def virtual_cycle(costs: Costs, nodes: int, per_core: int, instance_s: float) -> None:
    """A cycle on this many logical nodes; a row of the table."""
    cores = nodes * CORES
    virtual = VirtualRay(costs, instance_s, export_s=0.1)
    with under_the_pool(virtual):
        many = RayPool(None, (), lambda: cores, RetryPolicy(3, 1e6))  # type: ignore[arg-type]
        many.wait_until_ready()
        began, idle = virtual.clock.monotonic(), virtual.clock.skipped
        many.start([a_round(cores * per_core)])
        (result,) = many.results()
        took = virtual.clock.monotonic() - began
        busy = took - (virtual.clock.skipped - idle)
    assert len(result.outcomes) == cores * per_core
    ideal = per_core * instance_s
    print(f"| {nodes:,} | {cores:,} | {len(result.outcomes):,} of {instance_s:g} s | {ideal:.0f} s "
          f"| {took:.1f} s | {busy:.1f} s | {ideal / took:.0%} |", flush=True)  # fmt: skip


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
    for module in (ray_pool, actor_pool, actors):
        module.ray = some_ray  # type: ignore[attr-defined]
    for module in (actor_pool, actors, dispatch, handle):
        module.time = clock  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
