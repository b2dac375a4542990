"""OFFSET behind the protocol of `trainer.protocol`: nothing but calls of this package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.bound import rho0
from divergence.rules import Rule
from trainer.chunk import Chunk, compile_chunk
from trainer.features import FeatureSpec
from trainer.instance import TAU, Buffers, Job, Trained, train, warm_up
from trainer.kernel import Tables
from trainer.lines import LineOptions, Lines
from trainer.model import Changes, Model, ModelConfig
from trainer.modelfile import apply_delta, load_model, save_delta, save_model
from trainer.rows import warm_up_rows
from trainer.score_lines import warm_up_scores
from trainer.scoring import log_loss, predict, score, warm_up_predict
from trainer.setting import Setting
from trainer.tensorfile import Data
from trainer.trajectory import Trajectory, trace


@dataclass(frozen=True)
class Offset:
    """The model of the paper, of this shape and seed."""

    model: ModelConfig
    tau: float = TAU

    @cached_property
    def job(self) -> Job:
        """What all instances have in common."""
        return Job(self.model.spec, self.model.shape, self.tau)

    @property
    def spec(self) -> FeatureSpec:
        """The features of the events."""
        return self.model.spec

    @property
    def rho0(self) -> float:
        """The bound for the length of ad vectors."""
        return rho0(self.model.shape.ad)

    def compile(self, table: pa.Table, *, labelled: bool = True) -> Chunk:
        """A chunk of checked events."""
        return compile_chunk(table, self.spec, labelled=labelled)

    def warm_up(self, rules: Sequence[Rule], *, lines: bool = False) -> None:
        """Compile or load the kernels."""
        for rule in rules:
            warm_up(self.job, rule)
        warm_up_predict(self.job.shape)
        warm_up_rows()
        if lines:
            warm_up_scores(self.job.shape)

    def train(
        self, chunk: Chunk, start: Tables, setting: Setting, rule: Rule, **options: Any
    ) -> Trained:
        """Train one instance."""
        return train(self.job, chunk, start, setting, rule, **options)

    def trace(self, chunk: Chunk, start: Tables, setting: Setting, rule: Rule) -> Trajectory:
        """Train it event by event."""
        return trace(self.job, chunk, start, setting, rule)

    def served_logloss(self, chunk: Chunk, start: Tables, buffers: Buffers) -> float:
        """The log-loss of a working set on its chunk, before training."""
        return log_loss(predict(self.job.shape, chunk, start, buffers), chunk.click)

    def copy_of(self, tables: Tables) -> Tables:
        """A copy of trained rows."""
        return Buffers().copy_of(tables)

    def score(
        self, model: Model, events: pa.Table, compiled: Callable[[Chunk], None] | None = None
    ) -> NDArray[np.float64]:
        """The predicted click probability of every event."""
        return score(model, events, compiled)

    def new_model(self) -> Model:
        """A model that has seen nothing."""
        return Model(self.model)

    def save(self, model: Model, *, rows: bool = False) -> bytes:
        """A full file."""
        return save_model(model, rows=rows)

    def save_delta(self, model: Model, changes: Changes) -> bytes:
        """A file of what one cycle changed."""
        return save_delta(model, changes)

    def load(self, data: Data, name: str) -> Model:
        """The model of a full file."""
        return load_model(data, name, self.model)

    def apply_delta(self, model: Model, data: bytes, name: str) -> None:
        """Apply a delta."""
        apply_delta(model, data, name)

    def lines(self, options: LineOptions) -> Lines:
        """A set of lines, without any."""
        return Lines(options)
