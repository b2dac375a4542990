"""Lines on Ray: each has its home, an actor that keeps its model.

Per cycle and arm an actor gets one call, and the chunk travels once to each node. A line that is
copied to another actor travels between the two. When an actor is lost, its lines are made again
elsewhere, from their bases and the chunks since then. Training is deterministic, so none of this
shows in the results.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from divergence.rules import Rule
from orchestrator.pool.actor_pool import ANSWER_S, LATE_ROWS_S, ActorPool
from orchestrator.pool.handle import ActorHandle, Call
from orchestrator.pool.lines.placement import place
from orchestrator.pool.lines.progress import LinesProgress
from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.messages import LineBatch, LineReply, LineSnapshot, LinesResult
from orchestrator.pool.retry import RetryPolicy, hang_limit_s
from trainer.protocol import Trainer

Key = tuple[str, int]
"""An arm's name and the number of a line."""


class RayLinePool(ActorPool[LinesProgress, LinesResult]):
    """Actors that keep lines from cycle to cycle. Their calls run one after the other."""

    def __init__(
        self,
        job: Trainer,
        rules: Sequence[Rule],
        size: Callable[[], int],
        policy: RetryPolicy,
        trainer: type[LineTrainer] = LineTrainer,
    ) -> None:
        """Start actors of this class. `size` says before each cycle how many there should be."""
        self._homes: dict[Key, ActorHandle] = {}
        self._placed = True
        """Whether the lines of this cycle have been given to actors."""
        super().__init__(job, rules, size, policy, trainer)

    def start(self, arms: Sequence[LinesProgress], deadline: float | None = None) -> None:
        """Adapt the pool to the cluster, and give each actor its lines."""
        self._placed = False
        super().start(arms, deadline)

    # -- who gets what --------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Give all lines to actors; later only those that were lost, to idle actors."""
        if not self._actors.ready:
            return
        if not self._placed:
            self._placed = True
            self._send_all()
            return
        for actor in self._actors.ready:
            arm = next((arm for arm in self._arms if arm.waiting), None)
            if arm is None:
                return
            others = len(self._actors.ready) > 1
            if not actor.calls and not (others and arm.avoids(actor)):
                self._send_again(actor, arm)

    def _send_all(self) -> None:
        """One call for each actor and arm. All exports are requested first: calls run in order."""
        keys = [(arm.name, task.instance) for arm in self._arms for task in arm.plan.tasks]
        before = {key: home for key, home in self._homes.items() if not home.removed}
        names = {arm.name for arm in self._arms}
        others = {key: home for key, home in before.items() if key[0] not in names}
        homes = place(keys, before, self._actors.ready)
        self._homes = others | homes
        trained = {(name, home) for (name, _), home in before.items()}
        calls = []
        for arm in self._arms:
            arm.send_all()
            lines_at: dict[ActorHandle, list[int]] = defaultdict(list)
            for task in arm.plan.tasks:
                lines_at[homes[arm.name, task.instance]].append(task.instance)
            calls += [
                (actor, arm, lines, self._sources(arm, actor, lines, before, trained))
                for actor, lines in lines_at.items()
            ]
        for actor, arm, lines, (copies, arriving, rebuilds) in calls:
            self._send(actor, arm, lines, copies=copies, arriving=arriving, rebuilds=rebuilds)

    def _sources(
        self,
        arm: LinesProgress,
        actor: ActorHandle,
        lines: Sequence[int],
        before: dict[Key, ActorHandle],
        trained: set[tuple[str, ActorHandle]],
    ) -> tuple[list[tuple[int, int]], dict[int, Any], list[int]]:
        """Where each of these lines comes from: copies within the actor, those that arrive from
        other actors, and those that no actor has. `trained` are the arms that actors have."""
        copies, arriving, rebuilds, distant = [], {}, [], []
        for line in lines:
            parent = arm.plan.parents.get(line, line)
            home = before.get((arm.name, parent))
            if home is None:
                rebuilds.append(line)
            elif home is not actor:
                distant.append((line, parent, home))
            elif parent != line:
                copies.append((line, parent))
        has_index = bool(rebuilds) or (arm.name, actor) in trained
        for line, parent, home in distant:
            export = home.handle.export_rows if has_index else home.handle.export_model
            arriving[line] = export.remote(arm.name, parent)
            has_index = True
        return copies, arriving, rebuilds

    def _send_again(self, actor: ActorHandle, arm: LinesProgress) -> None:
        """Give an idle actor lines that were lost: one, or its share of them."""
        lines = [task.instance for task in arm.waiting if task.alone == arm.waiting[0].alone]
        idle = sum(not other.calls for other in self._actors.ready)
        share = 1 if arm.waiting[0].alone else math.ceil(len(lines) / idle)
        self._homes |= {(arm.name, line): actor for line in lines[:share]}
        self._send(actor, arm, lines[:share], rebuilds=lines[:share])

    def _send(
        self, actor: ActorHandle, arm: LinesProgress, lines: Sequence[int], **sources: Any
    ) -> None:
        now = time.monotonic()
        left_s = math.inf if self._deadline is None else self._deadline - now
        batch, data = arm.line_batch(lines, left_s, **sources)
        passes = len(lines) + sum(len(one.steps) for one in batch.rebuilds)
        limit_s = hang_limit_s(passes, arm.seconds, arm.events, self._policy.patience_s)
        ref = actor.handle.train_lines.remote(batch, arm.chunk, *data)
        actor.add(Call(ref, arm, batch, passes * (arm.seconds or 0.0), limit_s))

    # -- answers --------------------------------------------------------------------------------

    def _result(self, arm: LinesProgress, late: bool) -> LinesResult | None:
        models = {}
        for line, model_of in arm.newly_served.items():
            model = self._model(arm, model_of, late)
            if model is None:
                arm.lose_line(model_of, self._policy.tries, again=not late)
                return None
            models[line] = model
        return arm.lines_result(models)

    def _model(self, arm: LinesProgress, line: int, late: bool) -> LineSnapshot | None:
        """The complete model of a line that is served from now on; None where it is lost."""
        home = self._homes.get((arm.name, line))
        if home is None or home.removed:
            return None
        try:
            model: LineSnapshot = ray.get(
                home.handle.export_model.remote(arm.name, line),
                timeout=LATE_ROWS_S if late else ANSWER_S,
            )
        except RayTaskError:  # the actor is alive, but does not have it
            return None
        except RayError as error:
            self._lose(home, error)
            return None
        return model

    def _record(self, actor: ActorHandle, call: Call, reply: LineReply) -> None:
        assert isinstance(call.arm, LinesProgress)
        assert isinstance(call.batch, LineBatch)
        call.arm.record_lines(call.batch, reply, actor, self._policy.tries)
