"""A pool in this process, without Ray: one trainer, one instance after the other."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from divergence.rules import Rule
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.progress import ArmProgress
from orchestrator.pool.trainer_actor import TrainerActor
from trainer.protocol import Trainer


class LocalPool:
    """Trains to the same bits as the pool on Ray. There are no deadlines and no retries."""

    def __init__(self, trainer: Trainer, rules: Sequence[Rule]) -> None:
        self._trainer = TrainerActor(trainer, rules)
        self._arms: list[ArmProgress] = []

    def wait_until_ready(self) -> None:
        """There is nothing to wait for."""

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def start(self, arms: Sequence[ArmProgress], deadline: float | None = None) -> None:
        """Keep the arms; they are trained when their results are asked for."""
        self._arms = list(arms)

    def results(self) -> Iterator[ArmResult]:
        """Train each arm and give its result. An instance that raises fails at its first try."""
        for arm in self._arms:
            batch = arm.next_batch(len(arm.waiting), math.inf, self._trainer.batches_done)
            reply = self._trainer.train(batch, *arm.data)
            arm.record(batch, reply, self._trainer, tries=1)
            winner = arm.winner
            tables = None
            if winner is not None:
                tables = self._trainer.export(arm.cycle, arm.name, winner)
            yield arm.result(tables, shared=tables)

    def close(self) -> None:
        """There is nothing to stop."""
