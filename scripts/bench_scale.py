"""What the driver can drive: the pool's own code, thousands of instances, a kernel that sleeps.

Two parts. On a real Ray of this machine: what a call, an answer and a wait cost the driver, and a
cycle of many short instances on a few processes. Then, with those costs, the same pool on hundreds
of logical nodes whose actors are no processes (scripts/virtual_ray.py). What is not in the second
part: the network, and Ray's own head under that many nodes.

    .venv/bin/python scripts/bench_scale.py [--readme]
"""

import argparse
import io
import threading
import time
from contextlib import closing, redirect_stdout
from typing import Any

from orchestrator.ray_env import local_environment

local_environment()

import ray  # noqa: E402
from readme import Tee, replace_section  # noqa: E402
from virtual_ray import Costs, VirtualRay  # noqa: E402

import orchestrator.pool as pool_module  # noqa: E402
from orchestrator.actor import Trainer  # noqa: E402
from orchestrator.arm_round import ArmRound, Pace  # noqa: E402
from orchestrator.pool import Pool, Terms  # noqa: E402
from orchestrator.ray_start import started_ray  # noqa: E402
from orchestrator.work import Order, Reply, Task  # noqa: E402
from trainer.outcome import Outcome, Status  # noqa: E402
from trainer.setting import Setting  # noqa: E402

SETTING = Setting(1.0, 3.0, 0.5)
CORES = 8
"""Of a logical node."""
PER_CORE = 4
"""Instances that each core trains in a cycle."""
REAL_ACTORS = 8
REAL_INSTANCES = 2000
REFS = 2000


class Sleeper(Trainer):
    """Trains nothing, in a set time."""

    def __init__(self, *_: object) -> None:
        self.alone = threading.Lock()

    def train(self, order: Order, chunk: Any = None, start: Any = None) -> Reply:
        """Sleep for each instance."""
        outcomes = []
        with self.alone:
            for task in order.tasks:
                time.sleep(REAL_S)
                outcomes.append(Outcome(task.instance, SETTING, Status.RETAINED, 1.0, 1, REAL_S))
        return Reply(tuple(outcomes), {}, None)

    def export(self, cycle: int, arm: str, instance: int) -> Any:
        """A winner's rows."""
        return b"rows"


REAL_S = 0.02


def main() -> None:
    """Both parts, as Markdown."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--readme", action="store_true", help="put it into the README")
    given = options.parse_args()
    kept = io.StringIO()
    with redirect_stdout(Tee(kept)):
        with started_ray(None, REAL_ACTORS, verbose=False):
            costs = measured_costs()
            real_cycle()
        print("\n| nodes | cores | instances of | ideal | cycle | driver busy | cores at work |")
        print("|---|---|---|---|---|---|---|")
        for nodes in (10, 100, 1000):
            for instance_s in (1.0, 60.0):
                virtual_cycle(costs, nodes, instance_s)
    if given.readme:
        replace_section("bench_scale", kept.getvalue())


def measured_costs() -> Costs:
    """What Ray's calls cost the driver on this machine."""
    actor = ray.remote(num_cpus=1, max_concurrency=3)(Sleeper).remote()
    ray.get(actor.ready.remote())
    blocked = ray.remote(num_cpus=1)(Sleeper).remote()
    order = Order(0, "a", (Task(0, SETTING, None),), 1.0)  # type: ignore[arg-type]
    began = time.perf_counter()
    refs = [blocked.train.remote(order) for _ in range(REFS)]
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


def a_round(instances: int) -> ArmRound:
    """A cycle of one arm."""
    tasks = [Task(i, SETTING, None) for i in range(instances)]  # type: ignore[arg-type]
    return ArmRound("a", 0, tasks, 1, Pace(), chunk=None, start=None, serve=False)


def real_cycle() -> None:
    """Thousands of instances through a real Ray, against the time they sleep."""
    with closing(Pool(None, (), REAL_ACTORS, Terms(3, 30), Sleeper)) as pool:  # type: ignore[arg-type]
        pool.wait_until_up()
        began, cpu = time.perf_counter(), time.process_time()
        (result,) = pool.train([a_round(REAL_INSTANCES)])
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert len(result.outcomes) == REAL_INSTANCES
    ideal = REAL_INSTANCES * REAL_S / REAL_ACTORS
    print(f"{REAL_INSTANCES} instances of {REAL_S * 1e3:.0f} ms on {REAL_ACTORS} processes: "
          f"{took:.2f} s, ideally {ideal:.2f} s; the driver used {cpu:.2f} s of CPU")  # fmt: skip


def virtual_cycle(costs: Costs, nodes: int, instance_s: float) -> None:
    """A cycle on so many logical nodes; a row of the table."""
    cores = nodes * CORES
    virtual = VirtualRay(costs, instance_s, export_s=0.1)
    before = pool_module.ray, pool_module.time
    pool_module.ray, pool_module.time = virtual, virtual.clock  # type: ignore[assignment]
    try:
        pool = Pool(None, (), cores, Terms(3, 1e6))  # type: ignore[arg-type]
        pool.wait_until_up()
        began, idle = virtual.clock.monotonic(), virtual.clock.skipped
        (result,) = pool.train([a_round(cores * PER_CORE)])
        took = virtual.clock.monotonic() - began
        busy = took - (virtual.clock.skipped - idle)
    finally:
        pool_module.ray, pool_module.time = before
    assert len(result.outcomes) == cores * PER_CORE
    ideal = PER_CORE * instance_s
    print(f"| {nodes:,} | {cores:,} | {instance_s:g} s | {ideal:.0f} s | {took:.1f} s "
          f"| {busy:.1f} s | {ideal / took:.0%} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
