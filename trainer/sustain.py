"""Train one model with one setting for many cycles, without a tuner."""

from collections.abc import Iterable

from divergence.rules import Rule
from trainer.chunk import Chunk
from trainer.instance import Buffers, Job, train
from trainer.model import Model
from trainer.outcome import Outcome, Status
from trainer.setting import Setting


def sustain(
    model: Model,
    chunks: Iterable[Chunk],
    job: Job,
    setting: Setting,
    rule: Rule,
    *,
    sums_kept: float = 1.0,
    expire_after: int | None = None,
) -> list[Outcome]:
    """Train the model on one chunk after another; a cycle that diverges does not change it."""
    outcomes, buffers = [], Buffers()
    for cycle, chunk in enumerate(chunks, model.cycle + 1):
        start = model.gather(chunk, cycle, mu0=getattr(rule, "mu0", 0.0), sums_kept=sums_kept)
        trained = train(job, chunk, start.tables, setting, rule, buffers=buffers)
        if trained.outcome.status is Status.RETAINED:
            model.scatter(chunk, cycle, start, trained.tables)
            if expire_after is not None:
                model.expire(cycle - expire_after)
        outcomes.append(trained.outcome)
    return outcomes
