"""What a learner of the field must do, and how one chunk of it is measured."""

import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orchestrator.loop.prefetch import PreparedChunk
from scripts.bench.fields.events import FieldEvents, Fields, log_loss_of
from scripts.bench.regrets.streams import Stream

FieldSetting = Mapping[str, float | str]
"""The values of the step size and of the other parameter that is searched, by name."""
Chances = NDArray[np.float64]


@dataclass(frozen=True)
class FieldChunk:
    """A chunk in the forms that learners read."""

    events: FieldEvents
    prepared: PreparedChunk
    """As Holdfast trains it."""
    table: pa.Table
    """As Holdfast reads it: compiling it is part of Holdfast's training time."""


@dataclass(frozen=True)
class Opening:
    """What a learner starts with."""

    stream: Stream
    fields: Fields
    setting: FieldSetting
    seed: int
    programs: Mapping[str, str]
    """Programs of the user's own, by the option that names them."""
    folder: str
    """Where it may write files."""

    def number(self, name: str) -> float:
        """A value of the setting that is a number."""
        return float(self.setting[name])


@dataclass(frozen=True, slots=True)
class LearnerStep:
    """What one chunk gave."""

    logloss: float | None
    """Of what would have been served, before training; None if there was no model yet."""
    cpu_s: float
    """Of training."""
    trained: int
    """The events that `cpu_s` is for."""


class Stepping(Protocol):
    """Learns a stream chunk by chunk."""

    peak_bytes: int = 0
    """The largest memory of a program that it runs; 0 if it trains in this process."""
    lost: int = 0
    """The chunks from which it has kept nothing, since training on them diverged."""

    def step(self, chunk: FieldChunk) -> LearnerStep:
        """Score a chunk, then train on it in event order."""
        ...


class Learner(Stepping, Protocol):
    """One that scores and trains separately."""

    def step(self, chunk: FieldChunk) -> LearnerStep:
        """Encode, predict, train; only the last takes the learner's time."""
        encoded = self.encode(chunk)
        chance = self.predict(encoded)
        logloss = None if chance is None else log_loss_of(chance, chunk.events.click)
        before = cpu_seconds()
        trained = self.train(encoded)
        return LearnerStep(logloss, cpu_seconds() - before, trained)

    def encode(self, chunk: FieldChunk) -> Any:
        """The chunk in the learner's own form. This is our work and takes none of its time."""
        ...

    def predict(self, encoded: Any) -> Chances | None:
        """The chance of a click of each event; None if nothing has been learnt so far."""
        ...

    def train(self, encoded: Any) -> int:
        """Train in event order; return for how many events that was."""
        ...


def cpu_seconds() -> float:
    """CPU time of this process and of the programs that it has run."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def sigmoid(logit: NDArray[Any]) -> Chances:
    """The chance of a click."""
    return np.asarray(0.5 * (1.0 + np.tanh(0.5 * logit.astype(np.float64))))
