"""The outcome of one training instance."""

from dataclasses import dataclass
from enum import StrEnum

from trainer.pickling import travels_fast
from trainer.setting import Setting


class Status(StrEnum):
    """How an instance ended."""

    RETAINED = "retained"
    """It trained on the complete chunk, and every vector stayed below tau."""
    DIVERGED = "diverged"
    """A vector reached tau or was not finite; training stopped there."""
    FAILED = "failed"
    """Its process died, hung or raised an exception in every try."""
    LATE = "late"
    """It had not finished at the cycle's deadline."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first vector that diverged, and the event (its index in the chunk) at which it did.

    `norm` is the vector's largest |entry|, possibly inf or NaN.
    """

    event: int
    feature: str
    value: str
    norm: float


@travels_fast
@dataclass(frozen=True, slots=True)
class Outcome:
    """One instance of a cycle: its setting and its result.

    `logloss` is progressive, over the `events_done` events (NaN where there are none). `reason`
    says in one line why an instance was lost. `tries` counts all attempts.
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
