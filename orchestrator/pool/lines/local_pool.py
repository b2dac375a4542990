"""A pool of lines in this process, without Ray."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from divergence.rules import Rule
from orchestrator.pool.lines.progress import LinesProgress
from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.messages import LinesResult
from trainer.protocol import Trainer


class LocalLinePool:
    """Trains to the same bits as the pool on Ray. There are no deadlines and no retries."""

    def __init__(self, trainer: Trainer, rules: Sequence[Rule]) -> None:
        self._trainer = LineTrainer(trainer, rules)
        self._arms: list[LinesProgress] = []

    def wait_until_ready(self) -> None:
        """There is nothing to wait for."""

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def start(self, arms: Sequence[LinesProgress], deadline: float | None = None) -> None:
        """Keep the arms; they are trained when their results are asked for."""
        self._arms = list(arms)

    def results(self) -> Iterator[LinesResult]:
        """Train each arm and give its result. A line that raises fails at its first try."""
        for arm in self._arms:
            lines = [task.instance for task in arm.plan.tasks]
            parents = arm.plan.parents
            if arm.name in self._trainer.lines:
                batch, data = arm.line_batch(lines, math.inf, copies=tuple(parents.items()))
            else:
                batch, data = arm.line_batch(lines, math.inf, rebuilds=lines)
            reply = self._trainer.train_lines(batch, arm.chunk, *data)
            arm.record_lines(batch, reply, self._trainer, tries=1)
            new = arm.newly_served.items()
            yield arm.lines_result(
                {line: self._trainer.export_model(arm.name, model_of) for line, model_of in new}
            )

    def close(self) -> None:
        """There is nothing to stop."""
