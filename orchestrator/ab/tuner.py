"""One arm's tuner in the marketplace: the run's own arm, search and trainer, in this process."""

import pyarrow as pa

from orchestrator.ab.counts import InstanceCounts
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.journal.models import model_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.prefetch import prepare_chunk
from orchestrator.pool.local_pool import LocalPool
from orchestrator.search.sampler import cycle_rng, draw_quantiles
from orchestrator.sources.protocol import Events
from trainer.features import FeatureSpec
from trainer.model import Model
from trainer.outcome import Status


class Tuner:
    """Serves with its champion, and learns from the traffic that it is given."""

    def __init__(self, config: RunConfig, arm: ArmConfig, spec: FeatureSpec) -> None:
        """An arm whose champion has seen nothing."""
        self.state = ArmState(config, arm, Model(model_config(config, spec)))
        self.counts = InstanceCounts()
        self._config, self._spec = config, spec
        self._pool = LocalPool(self.state.trainer, [self.state.sample_rule])

    @property
    def model(self) -> Model:
        """The champion."""
        model: Model = self.state.model
        return model

    def start_from(self, other: "Tuner") -> None:
        """Copy another's champion and setting, as a new arm of a run does."""
        self.state.start_from(other.state)

    def learn(self, cycle: int, events: pa.Table) -> None:
        """Train all instances of a cycle; the best of those retained is the new champion."""
        prepared = prepare_chunk(Events(cycle, events, "traffic"), self._spec, self._pool.share)
        draws = draw_quantiles(self._config, cycle, cycle_rng(self._config.seed, cycle))
        plan = self.state.plan(prepared, draws, leader=None)
        self._pool.start([self.state.progress(plan, self._pool.share)])
        (result,) = self._pool.results()
        failed = [o.reason for o in result.outcomes if o.status is Status.FAILED]
        if failed:
            raise RuntimeError(f"cycle {cycle}, {self.state.name}: {failed[0]}")
        self.state.adopt(plan, result)
        self.counts.launched += len(result.outcomes)
        self.counts.diverged += sum(o.status is Status.DIVERGED for o in result.outcomes)
