"""What every peer of the regret benchmark gets: the same chunks, trainer, ranges and budget."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from divergence.bound import rho0
from orchestrator.config.ranges import Choice, Interval, ends, nearest_value
from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import ArmConfig, LineagesSelect, RunConfig
from orchestrator.config.space import Space, draw_width, space_of
from orchestrator.journal.models import model_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.prefetch import PreparedChunk
from orchestrator.search.lineages import first_lines, line_draws
from orchestrator.search.sampler import cycle_rng
from trainer.chunk import Chunk
from trainer.features import FeatureSpec
from trainer.instance import Buffers, Job, Trained, train
from trainer.kernel import Tables
from trainer.model import Model, WorkingSet
from trainer.modelfile import load_model, save_model
from trainer.outcome import Status
from trainer.scoring import log_loss, predict
from trainer.setting import Setting, setting_of

Table = NDArray[np.float64]
"""A number for each trial and chunk."""
Progress = Callable[[int, int], None]
"""Called with the number of chunks that are done, and of all."""
WORST = 1.0
"""The most that one chunk counts against a setting, relative to a constant CTR; as for lines."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What a peer served, chunk by chunk, and what it took."""

    served: list[float | None]
    """Log-loss of the model that the peer would have served on each chunk, before anything trained
    on it; None where it had no model yet."""
    trainings: int
    """Instances trained: one pass of one model over one chunk."""
    reference: list[float] = field(default_factory=list)
    """For a peer with a learner of its own: what its best fixed setting would have served."""
    note: str = ""


@dataclass(frozen=True)
class PeerSetup:
    """A stream and a search space, as `select: lineages` gets them."""

    config: RunConfig
    """With one arm, and lines."""
    spec: FeatureSpec
    chunks: Sequence[PreparedChunk]

    @property
    def arm(self) -> ArmConfig:
        """The rule, and its ranges."""
        return self.config.arms[0]

    @property
    def instances(self) -> int:
        """How many instances a peer may train on each chunk."""
        return self.config.search.instances

    @cached_property
    def job(self) -> Job:
        """What all instances have in common."""
        return Job(self.spec, model_config(self.config, self.spec).shape, self.config.model.tau)

    @cached_property
    def space(self) -> Space:
        """The range of each parameter."""
        return space_of(self.config, self.arm, rho0(self.job.shape.ad))

    @property
    def searched(self) -> Space:
        """The parameters that have more than one value."""
        return {name: span for name, span in self.space.items() if not _is_fixed(span)}

    @property
    def first(self) -> list[dict[str, float]]:
        """The settings that lines start with, the default setting first: peers start with them."""
        select = self.config.search.select
        assert isinstance(select, LineagesSelect)
        rng = cycle_rng(self.config.seed, self.chunks[0].cycle)
        draws = line_draws(rng, self.instances, draw_width(self.config))
        lines = first_lines(select, self.space, None, draws).lines
        return [{name: _value(line.setting, name) for name in self.searched} for line in lines]

    def setting(self, values: Mapping[str, float]) -> Setting:
        """The setting with these values, within the ranges, and with the parameters that are fixed.

        Tuners may leave a range by a rounding error; PBT does so on purpose.
        """
        fixed = {name: ends(span)[0] for name, span in self.space.items() if _is_fixed(span)}
        return setting_of(fixed | self.within(values))

    def within(self, values: Mapping[str, float]) -> dict[str, float]:
        """The nearest values of the ranges."""
        return {name: nearest_value(self.space[name], value) for name, value in values.items()}

    def new_model(self) -> "PeerModel":
        """A model that has seen nothing."""
        return PeerModel(self)


class PeerModel:
    """One model that a peer trains and serves, by the rules of an arm."""

    def __init__(self, setup: PeerSetup) -> None:
        self._setup, self._buffers = setup, Buffers()
        options = model_config(setup.config, setup.spec)
        self.state = ArmState(setup.config, setup.arm, Model(options))

    def gather(self, prepared: PreparedChunk) -> WorkingSet:
        """The rows from which training on a chunk starts."""
        start: WorkingSet = self.state.gather(prepared.cycle, chunk_of(prepared))
        return start

    def served(self, prepared: PreparedChunk, start: WorkingSet) -> float:
        """The log-loss on a chunk of the model as it is."""
        chunk = chunk_of(prepared)
        shape = self._setup.job.shape
        return log_loss(predict(shape, chunk, start.tables, self._buffers), chunk.click)

    def train(self, prepared: PreparedChunk, start: WorkingSet, setting: Setting) -> Trained:
        """Train one instance; the model does not change. The next one overwrites the tables."""
        rule = kernel_rule(self._setup.arm.rule, setting)
        job, chunk = self._setup.job, chunk_of(prepared)
        return train(job, chunk, start.tables, setting, rule, buffers=self._buffers)

    def keep(self, prepared: PreparedChunk, start: WorkingSet, tables: Tables) -> None:
        """Write what an instance has trained into the model."""
        self.state.promote(prepared.cycle, chunk_of(prepared), start, tables)


class PeerMember:
    """A member of a population: a model of its own with a setting, and nothing seen so far."""

    def __init__(self, setup: PeerSetup, setting: Setting) -> None:
        self._setup, self._setting, self._model = setup, setting, setup.new_model()

    def step(self, at: int) -> dict[str, float]:
        """Score chunk number `at`, then train on it. One that diverges skips the chunk."""
        prepared = self._setup.chunks[at]
        start = self._model.gather(prepared)
        served = self._model.served(prepared, start)
        trained = self._model.train(prepared, start, self._setting)
        retained = is_retained(trained)
        if retained:
            self._model.keep(prepared, start, trained.tables)
        return {"served": served, "excess": excess(prepared, served if retained else None)}

    def save(self) -> bytes:
        """The model, as data."""
        return save_model(self._model.state.model)

    def load(self, data: bytes) -> None:
        """Continue with this model."""
        config = self._model.state.model.config
        self._model.state.model = load_model(data, "checkpoint", config)


def chunk_of(prepared: PreparedChunk) -> Chunk:
    """The compiled events; the streams have no cycle without events."""
    assert isinstance(prepared.chunk, Chunk)
    return prepared.chunk


def excess(prepared: PreparedChunk, logloss: float | None) -> float:
    """A log-loss less that of a constant CTR, so that chunks can be compared; None: the worst."""
    if logloss is None:
        return WORST
    over = logloss - prepared.info.constant_logloss
    return min(over, WORST) if over == over else WORST


def is_retained(trained: Trained) -> bool:
    """Whether the instance did not diverge."""
    return trained.outcome.status is Status.RETAINED


def served_by_best(served: Table, worth: Table) -> list[float | None]:
    """On each chunk the served log-loss of the trial whose result was the best on the one before.

    The best trial keeps its model: only the worst are replaced. Of equals the first is served.
    """
    best = np.argmin(worth, axis=0)
    return [None, *(float(served[best[i], i + 1]) for i in range(worth.shape[1] - 1))]


def _is_fixed(span: Interval | Choice) -> bool:
    low, high = ends(span)
    return low == high


def _value(setting: Setting, name: str) -> float:
    value = setting.value(name)
    assert value is not None
    return value
