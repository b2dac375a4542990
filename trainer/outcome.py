"""What became of one instance."""

from dataclasses import dataclass
from enum import StrEnum

from trainer.setting import Setting


class Status(StrEnum):
    """How an instance ended."""

    RETAINED = "retained"
    """It trained on the whole chunk and every vector stayed below tau."""
    DIVERGED = "diverged"
    """A vector reached tau, or was no longer finite; training stopped there."""
    FAILED = "failed"
    """Its process died, hung or raised, in every try."""
    LATE = "late"
    """The cycle's deadline came first."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first vector that got away, and the event (its index in the chunk) that did it.

    `norm` is the vector's largest |entry|, possibly inf or NaN.
    """

    event: int
    feature: str
    value: str
    norm: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One instance of a cycle: what it was given and what came of it.

    `logloss` is progressive, over the `events_done` events (NaN where there are none). `reason`
    says in one line why an instance is lost. `tries` counts the attempts, the last included.
    """

    instance: int
    setting: Setting
    status: Status
    logloss: float
    events_done: int
    seconds: float
    divergence: Divergence | None = None
    reason: str = ""
    tries: int = 1


def is_useful(outcome: Outcome, constant_logloss: float) -> bool:
    """Whether it was retained and beats a model that knows the chunk's CTR and nothing else."""
    return outcome.status is Status.RETAINED and outcome.logloss < constant_logloss
