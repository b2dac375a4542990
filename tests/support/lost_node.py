"""A run whose node is lost in the middle of a cycle, in a cluster of its own on this machine.

    python -m support.lost_node FOLDER

The driver's node trains nothing, and its object store is short of room. The other node has all
trainers, and the rows of the last winner, which complete the drafts of this cycle.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.cluster_utils import Cluster

from orchestrator.config.file import read_config
from orchestrator.pool.handle import ActorHandle, Call
from orchestrator.pool.ray_pool import RayPool
from orchestrator.pool.retry import RetryPolicy
from support.runs import go_with

CONFIG = read_config(
    "cycles: 3\n"
    "seed: 103\n"
    "tries: 2\n"
    "source: {kind: simulator, preset: calm, events_per_cycle: 5000, ads: 50000}\n"
    "search: {instances: 6}\n"
    "arms: [{name: only, rule: l2}]\n",
    "run.yaml",
)
"""Its rows take some megabytes: Ray keeps small objects in the driver itself."""
STORE = 80 * 2**20
PART = 2 * 2**20


class Losing(RayPool):
    """Loses the trainers' node after the first answer of the last cycle."""

    cluster: Cluster
    lost = False

    def _record(self, actor: ActorHandle, call: Call, reply: Any) -> None:
        super()._record(actor, call, reply)
        if call.arm.cycle == 2 and not self.lost:
            assert call.arm.won is not None, "there is no draft"
            time.sleep(2)  # the commit of the cycle before frees what that used
            _parts = [ray.put(np.zeros(PART, np.uint8)) for _ in range(STORE // PART)]
            [node] = self.cluster.worker_nodes
            self.cluster.remove_node(node, allow_graceful=False)
            self.cluster.add_node(num_cpus=2, object_store_memory=STORE)
            Losing.lost = True


def main() -> None:
    """Run; the node is lost on the way."""
    cluster = Cluster(True, head_node_args={"num_cpus": 0, "object_store_memory": STORE})
    cluster.add_node(num_cpus=2, object_store_memory=STORE)
    ray.init(address=cluster.address, log_to_driver=False)
    Losing.cluster = cluster
    policy = RetryPolicy(CONFIG.tries, CONFIG.patience_s)
    pool = partial(Losing, size=lambda: 2, policy=policy)
    go_with(pool, CONFIG, Path(sys.argv[1]), None, None)
    assert Losing.lost, "no node was lost"
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main()
