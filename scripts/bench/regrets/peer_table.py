"""The tables of the regret benchmark's peers, in Markdown.

Gains are in percent and regrets in points of gain, both from the second chunk on, and means over
seeds. The peers that train our models are compared with the best fixed setting of the benchmark's
grid. ChaCha, which trains its own, is compared with the best fixed setting of its own learner.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from scripts.bench.regrets.methods import FIXED
from scripts.bench.regrets.peer_setup import PeerResult
from scripts.bench.regrets.peers import PEERS, read_peer
from scripts.bench.regrets.results import BenchTask, Result

OURS = ("champion", "lineages")
POINTS = 100.0


@dataclass(frozen=True)
class FieldResult:
    """All results on one stream with one seed."""

    ours: Result
    peers: Mapping[str, PeerResult]

    @property
    def best_fixed(self) -> str:
        """The fixed setting with the largest gain on the whole stream."""
        gains = self.ours.gains
        return max(FIXED, key=lambda name: gains[name])

    def gain(self, served: Sequence[float | None], chunks: int | None = None) -> float:
        """In percent, on the first chunks; where there was no model, a constant CTR is served."""
        rows = list(zip(self.ours.events, self.ours.constant, served, strict=False))[1:chunks]
        total = sum(n * (constant if own is None else own) for n, constant, own in rows)
        return POINTS * (1.0 - total / sum(n * constant for n, constant, _ in rows))

    def gain_of(self, name: str, chunks: int | None = None) -> float:
        """The gain of one of our methods, or of a peer."""
        served = self.peers[name].served if name in self.peers else self.ours.served[name]
        return self.gain(served, chunks)


Found = Mapping[tuple[str, int], FieldResult]
"""By stream and seed."""


def field_of(
    planned: Sequence[BenchTask], ours: Mapping[tuple[str, int], Result], out: Path
) -> tuple[Found, dict[str, str]]:
    """The results of all peers beside ours, and the versions of each peer."""
    found, versions = {}, {}
    for task in planned:
        peers = {}
        for peer in PEERS:
            peers[peer.name], versions[peer.name] = read_peer(peer, task, out)
        found[task.stream, task.seed] = FieldResult(ours[task.stream, task.seed], peers)
    return found, versions


def peer_tables(found: Found, versions: Mapping[str, str]) -> str:
    """Everything that goes on the page."""
    drivers = [peer.name for peer in PEERS if not peer.own_learner and _finished(found, peer.name)]
    others = [peer.name for peer in PEERS if peer.own_learner]
    parts = [_conditions(found, versions), _regrets(found, drivers)]
    parts += [_own_learner(found, name) for name in others]
    return "\n\n".join("\n".join(lines) for lines in parts)


def _finished(found: Found, name: str) -> bool:
    return all(one.peers[name].served for one in found.values())


def _conditions(found: Found, versions: Mapping[str, str]) -> Iterator[str]:
    seeds = sorted({seed for _, seed in found})
    yield f"Against the field, seeds {seeds[0]} to {seeds[-1]}, on the same chunks:\n"
    for name, text in versions.items():
        results = [one.peers[name] for one in found.values()]
        each = fmean(r.trainings / max(len(r.served), 1) for r in results)
        late = [r.note for r in results if not r.served]
        yield f"- {name}: {text}; {each:.1f} instances a cycle{'; ' + late[0] if late else ''}"


def _regrets(found: Found, drivers: Sequence[str]) -> Iterator[str]:
    yield "Peers that drive our trainer: gain, and regret to the best fixed setting in hindsight:\n"
    names = (*OURS, *drivers)
    yield _row("stream", ("best fixed", *names))
    yield "|---" * (len(names) + 2) + "|"
    for stream in dict.fromkeys(stream for stream, _ in found):
        ones = [one for (name, _), one in found.items() if name == stream]
        best = fmean(one.gain_of(one.best_fixed) for one in ones)
        yield _row(stream, (f"{best:.2f}%", *(_cell(ones, name) for name in names)))
    ones = list(found.values())
    best = fmean(one.gain_of(one.best_fixed) for one in ones)
    yield _row("**mean**", (f"{best:.2f}%", *(_cell(ones, name) for name in names)))


def _cell(ones: Sequence[FieldResult], name: str) -> str:
    gain = fmean(one.gain_of(name) for one in ones)
    regret = fmean(one.gain_of(one.best_fixed) - one.gain_of(name) for one in ones)
    return f"{gain:.2f}% ({regret:+.2f})"


def _own_learner(found: Found, name: str) -> Iterator[str]:
    yield f"{name} and its own regret, progressive, on the first chunks of each stream; beside it "
    yield "`lineages`, served, on the same chunks:\n"
    yield _row("stream", (name, "its best fixed", "its regret", "lineages", "best fixed", "regret"))
    yield "|---" * 7 + "|"
    for stream in dict.fromkeys(stream for stream, _ in found):
        ones = [one for (s, _), one in found.items() if s == stream and one.peers[name].served]
        rows = [_own_row(one, name) for one in ones]
        mean = [fmean(column) for column in zip(*rows, strict=True)]
        yield _row(stream, (f"{g:.2f}%" if i % 3 < 2 else f"{g:+.2f}" for i, g in enumerate(mean)))


def _own_row(one: FieldResult, name: str) -> tuple[float, ...]:
    peer, chunks = one.peers[name], len(one.peers[name].served)
    its, best = one.gain(peer.served), one.gain(peer.reference)
    ours = one.gain_of("lineages", chunks)
    fixed = max(one.gain_of(setting, chunks) for setting in FIXED)
    return its, best, best - its, ours, fixed, fixed - ours


def _row(first: str, cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"
