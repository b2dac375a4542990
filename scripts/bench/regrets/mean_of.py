"""What a run with `serve: {mean_of: k}` serves, for several k at once.

Which lines are served does not change how they train. So one run of lines is enough: the mean model
of each k is built from their models before each chunk, its members chosen by the product's rule.
"""

from collections.abc import Iterator, Sequence

from divergence.rules import Rule
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.messages import LinesResult
from orchestrator.search.lineages import together
from trainer.chunk import Chunk
from trainer.instance import Buffers
from trainer.mean_model import mean_model
from trainer.protocol import AnyLines, Trainer
from trainer.scoring import distinct_ads, served_logloss


def mean_name(count: int) -> str:
    """The name of a mean of so many lines in results."""
    return f"mean-of-{count}"


class MeanPool(LocalLinePool):
    """A pool of one arm's lines that also scores means of the best ones on each chunk."""

    def __init__(self, trainer: Trainer, rules: Sequence[Rule], counts: Sequence[int]) -> None:
        super().__init__(trainer, rules)
        self._members: dict[int, tuple[int, ...]] = dict.fromkeys(counts, ())
        self.served: dict[str, float | None] = {}
        """What each mean served on the last chunk."""

    def results(self) -> Iterator[LinesResult]:
        """The lines' own; afterwards, `served` is that of the means."""
        (arm,) = self._arms
        parents, means = arm.plan.parents, {}
        for count, members in self._members.items():
            if members:
                given = [parents.get(line, line) for line in members]
                means[count] = mean_logloss(self._trainer.lines[arm.name], given, arm.chunk)
        self.served = {mean_name(count): means.get(count) for count in self._members}
        for result in super().results():
            judged = result.judgement
            self._members = {
                count: together(count, before, judged.state, judged.replaced)
                for count, before in self._members.items()
            }
            yield result


def mean_logloss(lines: AnyLines, members: Sequence[int], chunk: Chunk) -> float:
    """The log-loss of the mean of these lines on a chunk that they have not seen."""
    model, buffers = mean_model([lines.as_model(line) for line in members]), Buffers()
    tables = buffers.copy_of(model.gather(chunk, model.cycle).tables)
    return served_logloss(model.shape, chunk, distinct_ads(model.shape, chunk), tables, buffers)
