"""Who gets which instances next. No Ray in here but the handles that are called."""

import math
import time
from collections.abc import Iterable, Sequence

from orchestrator.pool.handle import ActorHandle, Call
from orchestrator.pool.messages import batch_size, silence_s
from orchestrator.pool.progress import ArmProgress

SHORT_S = 0.05
"""An instance so short is worth waiting for in an actor, rather than for an idle one."""


def dispatch(
    ready: Iterable[ActorHandle],
    rounds: Sequence[ArmProgress],
    deadline: float | None,
    patience_s: float,
) -> None:
    """Orders for idle actors; then one more for each, those that are free first before others.

    The last of long instances are kept for who is free first indeed.
    """
    up = sorted(ready, key=lambda actor: actor.free_at)
    for depth in (0, 1):
        for actor in (a for a in up if len(a.calls) == depth):
            arm = next((r for r in rounds if r.waiting), None)
            if arm is None:
                return
            everywhere = sum(len(r.waiting) for r in rounds)
            queued = everywhere > len(up) or (arm.seconds or math.inf) < SHORT_S
            queued = queued and not (arm.waiting[0].alone or actor.alone)
            if queued if depth else not (len(up) > 1 and arm.shuns(actor)):
                count = batch_size(arm.waiting, everywhere, len(up), arm.seconds)
                _send(actor, arm, count, deadline, patience_s)


def _send(
    actor: ActorHandle, arm: ArmProgress, count: int, deadline: float | None, patience_s: float
) -> None:
    now = time.monotonic()
    limit_s = silence_s(count, arm.seconds, arm.events, patience_s)
    wait_s = max(actor.hung_at - now, 0.0) if actor.calls else 0.0
    left_s = math.inf if deadline is None else deadline - now
    order = arm.take(count, min(wait_s + limit_s, left_s), actor.orders)
    parts = (arm.chunk, arm.start) if actor.given.get(arm.name) != arm.cycle else ()
    work_s = count * (arm.seconds or 0.0)
    actor.take_on(Call(actor.handle.train.remote(order, *parts), order, work_s, limit_s))
