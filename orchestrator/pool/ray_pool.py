"""The trainer processes of a run, as Ray actors: what they are given, and what happens to them.

An actor works on one batch at a time; a second one waits in its queue, so that the actor never
waits for the driver. No batch goes to an actor that has not said it is ready. Ray restarts and
retries nothing: the pool replaces a dead actor and gives its batches to others. Training is
deterministic, so none of this shows in the results.
"""

import ray
from ray.exceptions import RayError, RayTaskError

from orchestrator.pool.actor_pool import ANSWER_S, LATE_ROWS_S, ActorPool
from orchestrator.pool.dispatch import dispatch
from orchestrator.pool.handle import ActorHandle
from orchestrator.pool.messages import ArmResult, Batch, BatchReply
from orchestrator.pool.progress import ArmProgress
from trainer.kernel import Tables


class RayPool(ActorPool[ArmProgress, ArmResult]):
    """Trains instances in batches, on whichever actor is free."""

    THREADS = 3

    def _dispatch(self) -> None:
        arms = list(self._arms.values())
        dispatch(self._actors.ready, arms, self._deadline, self._policy.patience_s)
        for arm in arms:
            if arm.nearly_done:
                self._request_rows(arm)

    def _result(self, arm: ArmProgress, late: bool) -> ArmResult | None:
        tables = self._winner_rows(arm, LATE_ROWS_S if late else ANSWER_S)
        if tables is not None or arm.winner is None:
            return arm.result(tables)
        arm.lose_winner(self._policy.tries, again=not late)
        return None

    def _request_rows(self, arm: ArmProgress) -> ActorHandle | None:
        """Request the leader's rows unless that is done already; gives the actor that has them."""
        leader, who = arm.winner, arm.holder()
        holder = next((actor for actor in self._actors.all if actor is who), None)
        if leader is not None and holder and (arm.request is None or arm.request[0] != leader):
            arm.request = leader, holder.handle.export.remote(arm.cycle, arm.name, leader)
        return holder

    def _winner_rows(self, arm: ArmProgress, timeout_s: float) -> Tables | None:
        """The winner's rows; None where there is no winner, or its rows are lost."""
        holder = self._request_rows(arm)
        if holder is None or arm.request is None:
            return None
        try:
            tables: Tables | None = ray.get(arm.request[1], timeout=timeout_s)
        except RayTaskError:  # the actor is alive, but does not have them
            return None
        except RayError as error:
            self._lose(holder, error)
            return None
        return tables

    def _record(self, actor: ActorHandle, batch: Batch, reply: BatchReply) -> None:
        arm = self._arms.get(batch.arm)
        if arm is not None:  # else its result is out already
            actor.given[arm.name] = arm.cycle
            arm.record(batch, reply, actor, self._policy.tries)
