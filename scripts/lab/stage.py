"""The stage of the soak test: a cluster whose run folder is on object storage, and a disk."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.lab.cluster import LabCluster
from scripts.lab.netlab import Lab
from scripts.lab.surroundings import BUCKET, KEYS, Disk, WallClock, object_storage
from scripts.lab.tls import tls_environment
from scripts.lab.unsteady import Unsteady

CONFIG = """
seed: 11
source: {kind: simulator, preset: stormy, events_per_cycle: 2000, users: 20000, ads: 400}
search: {instances: 8}
arms:
  - {name: production, rule: l2}
  - {name: entropic, rule: entropic}
tries: 20
"""
"""Short cycles. An instance whose trainer is killed again and again must not count as failed."""


@dataclass(frozen=True)
class Scene:
    """What a fault can happen to."""

    cluster: LabCluster
    storage: Unsteady
    disk: Disk
    clock: WallClock
    able: frozenset[str]
    """What can be made to fail here, of "links", "disk" and "clock"."""


@contextmanager
def staged(folder: Path, hosts: int, tls: bool) -> Iterator[Scene]:
    """A cluster, not started yet, and what it depends on."""
    with Lab(hosts + 1) as lab, ExitStack() as stack:
        storage_host = lab.hosts.pop()
        disk = Disk(folder / "disk", lab.isolated)
        stack.callback(disk.close)
        config = folder / "soak.yaml"
        config.write_text(f"{CONFIG}publish: {{to: {disk.folder}/published}}\n")
        cluster = LabCluster(lab, folder, config, f"s3://{BUCKET}/run")
        storage = stack.enter_context(object_storage(storage_host, folder / "storage.log"))
        cluster.env |= KEYS | {"AWS_ENDPOINT_URL": storage.url}
        if tls:
            cluster.env |= tls_environment(folder, [host.address for host in lab.hosts])
        clock = WallClock(folder)
        cluster.driver_env = clock.env
        isolated = {"links", "disk"} if lab.isolated else set()
        able = frozenset(isolated | ({"clock"} if clock.env else set()))
        yield Scene(cluster, storage, disk, clock, able)
