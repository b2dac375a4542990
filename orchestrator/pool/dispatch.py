"""Which actor gets which instances next. No Ray in here but the handles that are called."""

import math
import time
from collections.abc import Iterable, Sequence

from orchestrator.pool.handle import ActorHandle, Call
from orchestrator.pool.messages import batch_size, hang_limit_s
from orchestrator.pool.progress import ArmProgress

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
    actors = sorted(ready, key=lambda actor: actor.free_at)
    for depth in (0, 1):
        for actor in (a for a in actors if len(a.calls) == depth):
            arm = next((arm for arm in arms if arm.waiting), None)
            if arm is None:
                return
            waiting = sum(len(arm.waiting) for arm in arms)
            may_queue = waiting > len(actors) or (arm.seconds or math.inf) < SHORT_S
            may_queue = may_queue and not (arm.waiting[0].alone or actor.works_alone)
            if may_queue if depth else not (len(actors) > 1 and arm.avoids(actor)):
                count = batch_size(arm.waiting, waiting, len(actors), arm.seconds)
                _send(actor, arm, count, deadline, patience_s)


def _send(
    actor: ActorHandle, arm: ArmProgress, count: int, deadline: float | None, patience_s: float
) -> None:
    now = time.monotonic()
    limit_s = hang_limit_s(count, arm.seconds, arm.events, patience_s)
    queue_s = max(actor.hung_at - now, 0.0) if actor.calls else 0.0
    left_s = math.inf if deadline is None else deadline - now
    batch = arm.next_batch(count, min(queue_s + limit_s, left_s), actor.batches)
    data = (arm.chunk, arm.start) if actor.given.get(arm.name) != arm.cycle else ()
    work_s = count * (arm.seconds or 0.0)
    actor.add(Call(actor.handle.train.remote(batch, *data), batch, work_s, limit_s))
