"""OFFSET, trained by Holdfast: one instance with a fixed setting, or `select: lineages`.

The time of training has what a cycle needs of a chunk: compiling the table, gathering its rows,
training and writing the rows back. An instance that diverges skips the chunk, as in a run.
"""

from dataclasses import replace

from orchestrator.config.schema import ArmConfig, SearchConfig
from scripts.bench.fields.learner import (
    Chances,
    FieldChunk,
    Learner,
    LearnerStep,
    Opening,
    Stepping,
    cpu_seconds,
    sigmoid,
)
from scripts.bench.regrets.methods import INSTANCES, new_arms, new_pool, one_cycle
from scripts.bench.regrets.peer_setup import PeerModel, is_retained
from scripts.bench.regrets.peers import setup_of
from trainer.chunk import compile_chunk
from trainer.instance import Buffers
from trainer.scoring import predict

RULE = "holdfast"
BETA = 0.7
"""The default."""


def bounded(opening: Opening) -> Learner:
    """An instance with the default rule."""
    return OffsetInstance(opening, RULE)


def plain(opening: Opening) -> Learner:
    """An instance that nothing bounds."""
    return OffsetInstance(opening, "none")


class OffsetInstance(Learner):
    """One model, one setting."""

    def __init__(self, opening: Opening, rule: str) -> None:
        self._setup = setup_of(opening.stream, rule)
        eta0, alpha = opening.number("eta0"), opening.number("alpha")
        within = self._setup.setting({"eta0": eta0, "alpha": alpha, "beta": BETA})
        self._setting = replace(within, eta0=eta0)  # ten times the best may be out of the range
        self._model, self._buffers = PeerModel(self._setup), Buffers()

    def encode(self, chunk: FieldChunk) -> FieldChunk:
        """Nothing to do: `train` compiles the table."""
        return chunk

    def predict(self, encoded: FieldChunk) -> Chances | None:
        """The chance of a click of each event."""
        if not self._model.state.has_champion:
            return None
        start = self._model.gather(encoded.prepared)
        chunk, shape = encoded.prepared.chunk, self._setup.job.shape
        assert chunk is not None
        return sigmoid(predict(shape, chunk, start.tables, self._buffers))

    def train(self, encoded: FieldChunk) -> int:
        """Compile, gather, train, scatter."""
        chunk = compile_chunk(encoded.table, self._setup.spec)
        prepared = replace(encoded.prepared, chunk=chunk, shared=chunk)
        start = self._model.gather(prepared)
        trained = self._model.train(prepared, start, self._setting)
        if is_retained(trained):
            self._model.keep(prepared, start, trained.tables)
        else:
            self.lost += 1
        return trained.outcome.events_done


class OffsetLines(Stepping):
    """16 instances in this process, each with a setting and a model of its own; the best serves.

    It finds its settings itself. Its time includes the scoring by which lines are ranked.
    """

    def __init__(self, opening: Opening) -> None:
        search = {"instances": INSTANCES, "select": {"kind": "lineages"}}
        arm = ArmConfig.model_validate({"name": "lineages", "rule": RULE})
        changes = {"search": SearchConfig.model_validate(search), "arms": (arm,)}
        self._config = opening.stream.config.model_copy(update=changes)
        self._spec = opening.stream.spec
        self._arms = new_arms(self._config, opening.stream)
        self._pool = new_pool(self._arms, self._config, opening.stream)

    def step(self, chunk: FieldChunk) -> LearnerStep:
        """One cycle, as a run does it."""
        before = cpu_seconds()
        compiled = compile_chunk(chunk.table, self._spec)
        prepared = replace(chunk.prepared, chunk=compiled, shared=compiled)
        served = one_cycle(self._arms, self._config, self._pool, prepared)
        return LearnerStep(served["lineages"], cpu_seconds() - before, len(compiled))
