"""One arm's tuner in the marketplace: the run's own line, search and trainer, without processes."""

import math

import pyarrow as pa

from orchestrator.ab.counts import InstanceCounts
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.journal.models import model_config
from orchestrator.loop.arm_state import ArmState, begin_from
from orchestrator.pool.messages import ArmResult, Batch
from orchestrator.pool.trainer_actor import TrainerActor
from orchestrator.search.sampler import draw, generator
from orchestrator.search.selection import select
from trainer.chunk import compile_chunk
from trainer.features import FeatureSpec
from trainer.instance import Job
from trainer.model import Model
from trainer.outcome import Status


class Tuner:
    """Serves with its champion, and learns from the traffic that it is given."""

    def __init__(self, config: RunConfig, arm: ArmConfig, spec: FeatureSpec) -> None:
        """An arm whose champion has seen nothing."""
        self.line = ArmState(config, arm, Model(model_config(config, spec)))
        self.tally = InstanceCounts()
        self._config, self._spec = config, spec
        job = Job(spec, self.line.model.shape, config.model.tau)
        self._trainer = TrainerActor(job, [self.line.sample_rule])

    @property
    def model(self) -> Model:
        """The champion."""
        return self.line.model

    def begin_with(self, other: "Tuner") -> None:
        """Take over another's champion and setting, as a new arm of a run does."""
        begin_from(self.line, other.line)

    def learn(self, cycle: int, events: pa.Table) -> None:
        """Train all instances of a cycle; the best of those retained is the new champion."""
        chunk = compile_chunk(events, self._spec)
        draws = draw(self._config, cycle, generator(self._config.seed, cycle))
        plan = self.line.plan(cycle, chunk, draws, None)
        arm = self.line.arm.name
        order = Batch(cycle, arm, plan.tasks, math.inf, self._trainer.number)
        reply = self._trainer.train(order, chunk, plan.working_set.tables)
        if reply.raised:
            raise RuntimeError(f"cycle {cycle}, {arm}: {next(iter(reply.raised.values()))}")
        winner = select(reply.outcomes)
        tables = None if winner is None else self._trainer.export(cycle, arm, winner)
        self.line.learn(ArmResult(arm, reply.outcomes, winner, tables, None))
        if tables is not None:
            self.line.take_over(cycle, chunk, plan.working_set, tables)
        self.tally.launched += len(reply.outcomes)
        self.tally.diverged += sum(o.status is Status.DIVERGED for o in reply.outcomes)
