"""What happens to an instance that is lost: when it counts as hung, whether it is tried again."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.pool.messages import Task
from trainer.outcome import Outcome, Status

SLOWEST_S = 1e-4
"""Seconds for an event, more than any machine needs, before anything has been measured."""
MARGIN = 10
"""How many times its expected time a batch may take before patience starts to run."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often an instance is tried, and how long a silent process is waited for."""

    tries: int
    patience_s: float


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
    tried = "1 try" if task.tries == 1 else f"{task.tries} tries"
    return [], [without_result(task, Status.FAILED, f"{reason} ({tried})")]


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
