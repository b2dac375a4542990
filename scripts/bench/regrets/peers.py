"""The peers of the regret benchmark: which there are, whether they are installed, what they served.

Each gets the chunks, the trainer, the ranges, the first settings and the number of instances of
`select: lineages`, and is set up as its own documentation advises (the modules say how). Their
packages are no part of Holdfast's environment: `scripts/setup.sh --peers` installs them.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from orchestrator.config.schema import ArmConfig, SearchConfig
from orchestrator.pool.ray_env import local_environment
from scripts.bench.regrets.methods import INSTANCES
from scripts.bench.regrets.peer_setup import PeerResult, PeerSetup, Progress
from scripts.bench.regrets.results import BenchTask
from scripts.bench.regrets.streams import Stream, open_stream

INSTALL = "scripts/setup.sh --peers"


@dataclass(frozen=True, slots=True)
class Peer:
    """A tuner of others."""

    name: str
    module: str
    function: str
    packages: tuple[str, ...]
    own_learner: bool = False
    """It trains models of its own, not ours."""

    @property
    def versions(self) -> str:
        """The packages and their versions."""
        return ", ".join(f"{package} {version(package)}" for package in self.packages)

    def run(self, setup: PeerSetup, progress: Progress) -> PeerResult:
        """What it serves on a stream."""
        local_environment()  # before Ray is imported
        run = getattr(import_module(f"scripts.bench.regrets.{self.module}"), self.function)
        found: PeerResult = run(setup, progress)
        return found

    def path(self, task: BenchTask, out: Path) -> Path:
        """The file of its result."""
        size = f"{task.size.cycles}x{task.size.events}"
        return out / f"{task.rule}-{size}" / f"{task.stream}-{task.seed}-peer-{self.name}.json"


PEERS = (
    Peer("PBT", "peer_tune", "pbt", ("ray",)),
    Peer("PB2", "peer_tune", "pb2", ("ray", "scikit-learn")),
    Peer("TPE", "peer_optuna", "tpe", ("optuna",)),
    Peer("ChaCha", "peer_chacha", "chacha", ("flaml", "vowpalwabbit"), own_learner=True),
)


def not_installed(peers: Sequence[Peer] = PEERS) -> list[str]:
    """The packages that are missing."""
    found = []
    for package in dict.fromkeys(package for peer in peers for package in peer.packages):
        try:
            version(package)
        except PackageNotFoundError:
            found.append(package)
    return found


def setup_of(stream: Stream, rule: str) -> PeerSetup:
    """What a peer gets: the search of `select: lineages` on this stream."""
    search = {"instances": INSTANCES, "select": {"kind": "lineages"}}
    arm = ArmConfig.model_validate({"name": "peer", "rule": rule})
    changes = {"search": SearchConfig.model_validate(search), "arms": (arm,)}
    return PeerSetup(stream.config.model_copy(update=changes), stream.spec, stream.chunks)


def run_peers(
    planned: Sequence[BenchTask], out: Path, data: Path, say: Callable[[str], None]
) -> None:
    """Run what has no result yet, one after the other: each may use all cores."""
    work = [(task, peer) for task in planned for peer in PEERS if not peer.path(task, out).exists()]
    began, opened = time.monotonic(), None
    for number, (task, peer) in enumerate(work, 1):
        if opened is None or opened[0] != task:
            opened = (task, open_stream(task.stream, task.seed, task.size, data))
        head = f"[{number}/{len(work)}] {task.stream} {task.seed}, {peer.name}"
        start = time.monotonic()
        result = peer.run(setup_of(opened[1], task.rule), _quarters(head, say))
        seconds = time.monotonic() - start
        _write(peer.path(task, out), result, peer, seconds)
        left = (time.monotonic() - began) * (len(work) / number - 1)
        say(f"{head}: {seconds:.0f} s, about {left / 60:.1f} min left")


def read_peer(peer: Peer, task: BenchTask, out: Path) -> tuple[PeerResult, str]:
    """A result, and the versions that it is of."""
    found = json.loads(peer.path(task, out).read_text("utf-8"))
    return PeerResult(**found["result"]), str(found["versions"])


def _write(path: Path, result: PeerResult, peer: Peer, seconds: float) -> None:
    """All or nothing."""
    found = {"versions": peer.versions, "seconds": round(seconds, 1), "result": asdict(result)}
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(found), encoding="utf-8")
    beside.replace(path)


def _quarters(head: str, say: Callable[[str], None]) -> Progress:
    """A line after each quarter of a stream."""
    said = 0

    def progress(done: int, cycles: int) -> None:
        nonlocal said
        if done < cycles and 4 * done // cycles > said:
            said = 4 * done // cycles
            say(f"{head}: {done} of {cycles} chunks")

    return progress
