"""What the driver asks of trainer processes, and the decisions about it: pure, without Ray."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from divergence.rules import Rule
from trainer.kernel import Tables
from trainer.outcome import Outcome, Status
from trainer.setting import Setting

BATCH_S = 0.2
"""How long a call should take: long against Ray's millisecond, short against a cycle."""
SLOWEST_S = 1e-4
"""Seconds an event that nobody needs, for calls before anything has been measured."""
MARGIN = 10
"""By how much a call may exceed what it should take before patience begins to run."""


@dataclass(frozen=True, slots=True)
class Task:
    """One instance to be trained.

    `tries` counts how often it was begun and lost. One that was lost in company begins again
    alone, so that the next loss is its own.
    """

    instance: int
    setting: Setting
    rule: Rule
    tries: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """One call: instances of one arm, to be trained in `budget_s` seconds from its arrival.

    `number` is its place among the orders of its process. `serve` asks for the log-loss of the
    working set as it is, too.
    """

    cycle: int
    arm: str
    tasks: tuple[Task, ...]
    budget_s: float
    number: int = 0
    serve: bool = False


@dataclass(frozen=True, slots=True)
class BatchReply:
    """What came of an order: outcomes, and for instances that raised, what they raised.

    Instances that the budget did not suffice for are late or not there.
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
    """How many of the waiting tasks the next call takes.

    As many as fit in BATCH_S, but at most half of an actor's share of what is waiting everywhere:
    calls become shorter towards the end, so that all actors end at about the same time.
    """
    if seconds is None or waiting[0].alone:
        return 1
    company = next((i for i, task in enumerate(waiting) if task.alone), len(waiting))
    fair = math.ceil(everywhere / (2 * actors))
    return max(1, min(fair, company, int(BATCH_S / max(seconds, 1e-9))))


def silence_s(tasks: int, seconds: float | None, events: int, patience_s: float) -> float:
    """After how many seconds a call without an answer counts as hung."""
    each = SLOWEST_S * events if seconds is None else seconds
    return patience_s + MARGIN * tasks * each


def after_loss(tasks: Sequence[Task], reason: str, tries: int) -> tuple[list[Task], list[Outcome]]:
    """What becomes of tasks that were lost with their process: tried again, or given up.

    A loss in company is nobody's: it is not counted, and each begins again alone.
    """
    if len(tasks) > 1:
        return [replace(task, alone=True) for task in tasks], []
    task = replace(tasks[0], tries=tasks[0].tries + 1, alone=True)
    if task.tries < tries:
        return [task], []
    return [], [lost(task, Status.FAILED, f"{reason}, in each of {task.tries} tries")]


def lost(task: Task, status: Status, reason: str) -> Outcome:
    """The outcome of an instance that has nothing to show."""
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
