"""What a method served on a stream, stored in a file, and the gains that follow from it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.bench.regrets.methods import METHODS, Served, TuningMethod
from scripts.bench.regrets.streams import Size, Stream


@dataclass(frozen=True, slots=True)
class BenchTask:
    """A stream on which every method is measured."""

    stream: str
    seed: int
    rule: str
    size: Size

    def path(self, out: Path, method: TuningMethod) -> Path:
        """The file of a method's result. Results of another rule or size do not get in its way."""
        size = f"{self.size.cycles}x{self.size.events}"
        return out / f"{self.rule}-{size}" / f"{self.stream}-{self.seed}-{method.name}.json"

    def missing(self, out: Path) -> list[TuningMethod]:
        """The methods that have not run yet."""
        return [method for method in METHODS if not self.path(out, method).exists()]


@dataclass(frozen=True, slots=True)
class Result:
    """What was served on a stream, by method or by fixed setting."""

    events: list[int]
    constant: list[float]
    """The log-loss of a constant CTR on each chunk."""
    served: Mapping[str, Served]

    @classmethod
    def of(cls, stream: Stream, served: Mapping[str, Served]) -> "Result":
        """With the chunks of this stream."""
        infos = [one.info for one in stream.chunks]
        return cls([i.events for i in infos], [i.constant_logloss for i in infos], served)

    @property
    def logloss(self) -> dict[str, float]:
        """The mean served log-loss of an event, from the second chunk on."""
        return {name: self._mean(each) for name, each in self.served.items()}

    @property
    def gains(self) -> dict[str, float]:
        """By how much that lies below the log-loss of a constant CTR."""
        constant = self._mean(self.constant)
        return {name: 1.0 - found / constant for name, found in self.logloss.items()}

    def _mean(self, each: list[float] | Served) -> float:
        """Where there was no model, a constant CTR would have been served."""
        rows = list(zip(self.events, self.constant, each, strict=True))[1:]
        total = sum(n * (constant if own is None else own) for n, constant, own in rows)
        return total / sum(n for n, *_ in rows)


def write_result(path: Path, result: Result) -> None:
    """All or nothing, so that a stop leaves no half result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(asdict(result)), encoding="utf-8")
    beside.replace(path)


def read_results(task: BenchTask, out: Path) -> Result:
    """The results of all methods on one stream, as one."""
    found = [Result(**json.loads(task.path(out, m).read_text("utf-8"))) for m in METHODS]
    served = {name: each for one in found for name, each in one.served.items()}
    return Result(found[0].events, found[0].constant, served)
