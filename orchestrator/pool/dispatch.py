"""Which actor gets which instances next. No Ray in here but the handles that are called."""

import math
import time
from collections.abc import Iterable, Sequence

from orchestrator.pool.handle import ActorHandle, Call
from orchestrator.pool.messages import Task
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.retry import hang_limit_s

BATCH_S = 0.2
"""How long a batch should take: long compared with Ray's millisecond, short with a cycle."""
SHORT_S = 0.05
"""An instance this short may wait in a busy actor's queue instead of for an idle actor."""


def dispatch(
    ready: Iterable[ActorHandle],
    arms: Sequence[ArmProgress],
    deadline: float | None,
    patience_s: float,
) -> None:
    """Give idle actors a batch each, then queue one more for each, those free soonest first.

    The last long instances are not queued: they wait for whichever actor is free first.
    """
    actors = list(ready)
    for depth in (0, 1):
        waiting = sum(len(arm.waiting) for arm in arms)
        if not waiting or (depth > 0 and not _any_short(arms, waiting, len(actors))):
            return
        able = [actor for actor in actors if len(actor.calls) == depth]
        for actor in sorted(able, key=lambda actor: actor.free_at):
            arm = next((a for a in arms if a.waiting and not _avoids(a, actor, actors)), None)
            if arm is None:
                continue
            waiting = sum(len(arm.waiting) for arm in arms)
            if depth == 0 or _may_queue(arm, actor, waiting, len(actors)):
                count = batch_size(arm.waiting, waiting, len(actors), arm.seconds)
                _send(actor, arm, count, deadline, patience_s)


def _avoids(arm: ArmProgress, actor: ActorHandle, actors: Sequence[ActorHandle]) -> bool:
    """Whether the arm's next task failed in this actor, and there are others."""
    return len(actors) > 1 and arm.avoids(actor)


def _may_queue(arm: ArmProgress, actor: ActorHandle, waiting: int, actors: int) -> bool:
    """Whether the arm's next task may wait for this busy actor."""
    return _any_short([arm], waiting, actors) and not (arm.waiting[0].alone or actor.works_alone)


def _any_short(arms: Iterable[ArmProgress], waiting: int, actors: int) -> bool:
    """Whether tasks may wait for busy actors at all."""
    return waiting > actors or any((arm.seconds or math.inf) < SHORT_S for arm in arms)


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


def _send(
    actor: ActorHandle, arm: ArmProgress, count: int, deadline: float | None, patience_s: float
) -> None:
    now = time.monotonic()
    limit_s = hang_limit_s(count, arm.seconds, arm.events, patience_s)
    queue_s = max(actor.hung_at - now, 0.0) if actor.calls else 0.0
    left_s = math.inf if deadline is None else deadline - now
    batch = arm.next_batch(count, min(queue_s + limit_s, left_s), actor.batches)
    data = arm.data if actor.given.get(arm.name) != arm.cycle else ()
    work_s = count * (arm.seconds or 0.0)
    actor.add(Call(actor.handle.train.remote(batch, *data), arm, batch, work_s, limit_s))
