"""What driver and trainer processes send each other. No Ray in here."""

from dataclasses import dataclass

from divergence.rules import Rule
from trainer.kernel import Tables
from trainer.outcome import Outcome
from trainer.setting import Setting


@dataclass(frozen=True, slots=True)
class Task:
    """One instance to train.

    `tries` counts how often it was started and lost. An instance that was lost together with
    others is tried again alone, so that the next loss is its own.
    """

    instance: int
    setting: Setting
    rule: Rule
    tries: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """One call: instances of one arm, to train within `budget_s` seconds of its arrival.

    `number` is its place among the batches of its actor. `serve` also asks for the log-loss of
    the working set before training.
    """

    cycle: int
    arm: str
    tasks: tuple[Task, ...]
    budget_s: float
    number: int = 0
    serve: bool = False


@dataclass(frozen=True, slots=True)
class BatchReply:
    """The outcomes of a batch, and the errors of instances that raised.

    Instances that did not fit into the budget are late or missing.
    """

    outcomes: tuple[Outcome, ...]
    raised: dict[int, str]
    served: float | None = None


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm's cycle: every outcome by instance number, and the winner's rows."""

    arm: str
    outcomes: tuple[Outcome, ...]
    winner: int | None
    tables: Tables | None
    served: float | None
