"""Which dispatcher gets which instances next. No Ray in here but the handles that are called."""

import math
import time
from collections.abc import Iterable, Sequence

from orchestrator.pool.dispatch import batch_size
from orchestrator.pool.handle import GRACE_S, ActorHandle, Call
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.retry import RetryPolicy, hang_limit_s


def dispatch_shares(
    ready: Iterable[ActorHandle],
    arms: Sequence[ArmProgress],
    deadline: float | None,
    policy: RetryPolicy,
) -> None:
    """Give idle dispatchers a share each, then queue one more for each, those free soonest first.

    Even the last instances are queued: the trainers of a dispatcher share its queue.
    """
    dispatchers = sorted(ready, key=lambda actor: actor.free_at)
    cores = sum(actor.width for actor in dispatchers)
    waiting = sum(len(arm.waiting) for arm in arms)
    unfinished = waiting + sum(actor.tasks for actor in dispatchers)
    for depth in (0, 1):
        for actor in (a for a in dispatchers if len(a.calls) == depth):
            arm = next((arm for arm in arms if arm.waiting), None)
            if arm is None:
                return
            each = batch_size(arm.waiting, waiting, cores, arm.seconds)
            fair = math.ceil(unfinished * actor.width / cores)
            count = min(share_size(each, fair, actor), len(arm.waiting))
            if count > 0:
                _send(actor, arm, count, deadline, policy)


def share_size(each: int, fair: int, actor: ActorHandle) -> int:
    """How many tasks a dispatcher takes next: `each` for each of its trainers, but no more than
    that it has its `fair` number of all that are not finished."""
    return min(each * actor.width, fair - actor.tasks)


def share_limit_s(once_s: float, tries: int) -> float:
    """How long a share may take, where a trainer that works on its part counts as hung after
    `once_s`: the dispatcher may lose an instance first with others, then `tries` times alone."""
    return (tries + 2) * (once_s + 2 * GRACE_S)  # one more, to replace trainers meanwhile


def _send(
    actor: ActorHandle, arm: ArmProgress, count: int, deadline: float | None, policy: RetryPolicy
) -> None:
    """Chunk and rows go by reference, inside of a tuple: else Ray would fetch them for it.

    A dispatcher retries and replaces trainers, and counts as hung only after that.
    """
    left_s = math.inf if deadline is None else deadline - time.monotonic()
    batch = arm.next_batch(count, left_s)
    ref = actor.handle.train.remote(batch, arm.data, arm.events, arm.pace.per_event_s)
    work_s = count * (arm.seconds or 0.0) / actor.width
    one_after_another = math.ceil((actor.tasks + count) / actor.width)
    once_s = hang_limit_s(one_after_another, arm.seconds, arm.events, policy.patience_s)
    actor.add(Call(ref, arm, batch, work_s, share_limit_s(once_s, policy.tries)))
