"""What driver and trainer processes send each other, and the decisions about it: no Ray."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from divergence.rules import Rule
from trainer.kernel import Tables
from trainer.outcome import Outcome, Status
from trainer.setting import Setting

BATCH_S = 0.2
"""How long a batch should take: long compared with Ray's millisecond, short with a cycle."""
SLOWEST_S = 1e-4
"""Seconds for an event, more than any machine needs, before anything has been measured."""
MARGIN = 10
"""How many times its expected time a batch may take before patience starts to run."""


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


def batch_size(waiting: Sequence[Task], everywhere: int, actors: int, seconds: float | None) -> int:
    """How many of the waiting tasks the next batch takes.

    As many as fit in BATCH_S, but at most half of an actor's share of what is waiting everywhere:
    batches get shorter towards the end, so that all actors finish at about the same time.
    """
    if seconds is None or waiting[0].alone:
        return 1
    together = next((i for i, task in enumerate(waiting) if task.alone), len(waiting))
    fair = math.ceil(everywhere / (2 * actors))
    return max(1, min(fair, together, int(BATCH_S / max(seconds, 1e-9))))


def hang_limit_s(tasks: int, seconds: float | None, events: int, patience_s: float) -> float:
    """After how many seconds without an answer a batch counts as hung."""
    each = SLOWEST_S * events if seconds is None else seconds
    return patience_s + MARGIN * tasks * each


def retry_or_fail(
    tasks: Sequence[Task], reason: str, tries: int
) -> tuple[list[Task], list[Outcome]]:
    """The tasks of a lost batch that are tried again, and the outcomes of those that have failed.

    A loss of several tasks is not counted against any of them: each is tried again alone.
    """
    if len(tasks) > 1:
        return [replace(task, alone=True) for task in tasks], []
    task = replace(tasks[0], tries=tasks[0].tries + 1, alone=True)
    if task.tries < tries:
        return [task], []
    return [], [without_result(task, Status.FAILED, f"{reason}, in each of {task.tries} tries")]


def without_result(task: Task, status: Status, reason: str) -> Outcome:
    """The outcome of an instance that failed or is late."""
    return Outcome(
        instance=task.instance,
        setting=task.setting,
        status=status,
        logloss=math.nan,
        events_done=0,
        seconds=0.0,
        reason=reason,
        tries=max(task.tries, 1),
    )
