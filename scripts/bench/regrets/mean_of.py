"""What lines would serve together: the mean of the logits of the best few, as one wide model.

No run serves this yet. It is measured here to decide whether it pays: lines train and are judged by
the product's own code, and the mean model is built from their models before each chunk.
"""

from collections.abc import Iterator, Sequence

from divergence.rules import Rule
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.messages import LinesResult
from orchestrator.search.lineages import ERRORS, MIN_CHUNKS, LineState, paired_gain
from trainer.chunk import Chunk
from trainer.instance import Job
from trainer.lines import Lines
from trainer.mean_model import mean_model
from trainer.scoring import log_loss, predict


def mean_name(count: int) -> str:
    """The name of a mean of so many lines in results."""
    return f"mean-of-{count}"


class MeanPool(LocalLinePool):
    """A pool of one arm's lines that also scores means of the best ones on each chunk."""

    def __init__(self, job: Job, rules: Sequence[Rule], counts: Sequence[int]) -> None:
        super().__init__(job, rules)
        self._seats: dict[int, tuple[int, ...]] = dict.fromkeys(counts, ())
        self.served: dict[str, float | None] = {}
        """What each mean served on the last chunk; that of the champion until lines are ranked."""

    def results(self) -> Iterator[LinesResult]:
        """The lines' own; afterwards, `served` is that of the means."""
        (arm,) = self._arms
        parents, means = arm.plan.parents, {}
        for count, seats in self._seats.items():
            if seats:
                given = [parents.get(line, line) for line in seats]
                means[count] = mean_logloss(self._trainer.lines[arm.name], given, arm.chunk)
        for result in super().results():
            self.served = {mean_name(k): means.get(k, result.served) for k in self._seats}
            if result.each_served:
                lines = result.judgement.state.lines
                self._seats = {k: seated(seats, lines, k) for k, seats in self._seats.items()}
            yield result


def mean_logloss(lines: Lines, seats: Sequence[int], chunk: Chunk) -> float:
    """The log-loss of the mean of these lines on a chunk that they have not seen."""
    model = mean_model([lines.as_model(line) for line in seats])
    tables = model.gather(chunk, model.cycle).tables
    return log_loss(predict(model.shape, chunk, tables), chunk.click)


def seated(seats: tuple[int, ...], lines: Sequence[LineState], count: int) -> tuple[int, ...]:
    """The lines that are served together: at first the best ones.

    Then the best line without a seat gets that of the worst with one, by the champion's test.
    """
    ranked = sorted(range(len(lines)), key=lambda line: (lines[line].score or 0.0, line))
    if not seats:
        return tuple(ranked[:count])
    outside = [line for line in ranked if line not in seats]
    if not outside:
        return seats
    worst = max(seats, key=ranked.index)
    gain, error, chunks = paired_gain(lines[worst], lines[outside[0]])
    if chunks < MIN_CHUNKS or gain <= ERRORS * error:
        return seats
    return tuple(outside[0] if line == worst else line for line in seats)
