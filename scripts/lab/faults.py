"""The faults of the soak test, and seeded plans of them."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scripts.lab.stage import Scene


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `weight` is how often it happens, in proportion.

    After a heavy one the soak waits until the run has recovered; light ones pile up.
    """

    name: str
    weight: int
    happen: Callable[[Scene, random.Random], str]
    heavy: bool = False
    needs: str = ""
    """What of `Scene.able` it needs."""


def storage_fault(what: str, most: int) -> Callable[[Scene, random.Random], str]:
    """The next requests to object storage fail in one way."""

    def happen(scene: Scene, chance: random.Random) -> str:
        requests = chance.randint(1, most)
        scene.storage.plan.extend([what] * requests)
        return f"{requests} requests: {what}"

    return happen


def storage_down(scene: Scene, chance: random.Random) -> str:
    """Object storage answers nobody for a while."""
    seconds = chance.uniform(0.5, 4)
    scene.storage.away = True
    scene.cluster.heal_after(seconds, lambda: setattr(scene.storage, "away", False))
    return f"storage down for {seconds:.1f} s"


def disk_full(scene: Scene, chance: random.Random) -> str:
    """The disk of the published place is full for a moment."""
    return scene.disk.fill(scene.cluster, chance)


FAULTS = (
    Fault("trainer killed", 200, lambda s, c: s.cluster.kill_trainer(c)),
    Fault("trainer paused, 0.2 to 3 s", 190, lambda s, c: s.cluster.pause_trainer(c)),
    Fault("driver paused, 0.2 to 3 s", 140, lambda s, c: s.cluster.pause_driver(c)),
    Fault("storage busy (503), 1 to 6 requests", 90, storage_fault("busy", 6)),
    Fault("storage slow, 1 to 3 requests", 60, storage_fault("slow", 3)),
    Fault("storage cuts connections, 1 to 4 requests", 80, storage_fault("cut", 4)),
    Fault("storage's answers lost, 1 to 4 requests", 60, storage_fault("lost", 4)),
    Fault("storage down, 0.5 to 4 s", 30, storage_down),
    Fault("disk of the published place full, 0.5 to 3 s", 40, disk_full, needs="disk"),
    Fault("driver's wall clock jumps", 45, lambda s, c: s.clock.jump(c), needs="clock"),
    Fault("storage denies access (403), one request", 5, storage_fault("forbidden", 1), True),
    Fault("driver killed", 20, lambda s, c: s.cluster.kill_driver(c), True),
    Fault("node killed, a new one added", 17, lambda s, c: s.cluster.kill_node(c), True),
    Fault("link cut, 3 or 15 s", 12, lambda s, c: s.cluster.cut_link(c), True, "links"),
    Fault("head killed, a new cluster", 6, lambda s, c: s.cluster.kill_head(c), True),
    Fault("second driver, refused", 5, lambda s, c: s.cluster.second_driver(c), True),
)


def plan(faults: Sequence[Fault], chance: random.Random, count: int) -> list[Fault]:
    """So many faults in random order: each at least once, the others by their weights."""
    weights = [fault.weight for fault in faults]
    share = count / sum(weights)
    dealt = [fault for fault in faults for _ in range(max(1, int(share * fault.weight)))]
    dealt += chance.choices(faults, weights, k=max(0, count - len(dealt)))
    chance.shuffle(dealt)
    return dealt


def endless_plan(faults: Sequence[Fault], chance: random.Random) -> Iterator[Fault]:
    """Every fault once in random order, then without end by their weights."""
    yield from plan(faults, chance, len(faults))
    while True:
        yield chance.choices(faults, [fault.weight for fault in faults])[0]
