"""A trainer process that keeps the models of lines: chunks in, outcomes and scores out.

It gathers and scatters for itself. Only the rows of served lines leave it, snapshots, and lines
that are copied to other processes.
"""

import time
from collections.abc import Sequence
from typing import Any

from divergence.rules import Rule
from orchestrator.pool.lines.rebuild import rebuild
from orchestrator.pool.messages import LineBatch, LineReply, LineSnapshot
from orchestrator.pool.trainer_actor import NotHeldError, TrainerActor, reason_of
from trainer.outcome import Outcome, Status
from trainer.protocol import AnyChunk, AnyLines, Trainer


class LineTrainer(TrainerActor):
    """Scores and trains lines, one after the other. The pool makes it a Ray actor."""

    in_place = True

    def __init__(self, trainer: Trainer, rules: Sequence[Rule]) -> None:
        """No lines; the kernels of these rules are compiled."""
        super().__init__(trainer, rules)
        self.lines: dict[str, AnyLines] = {}

    def train_lines(self, batch: LineBatch, chunk: AnyChunk, *data: Any) -> LineReply:
        """Score each line on the chunk, then train it.

        `data` has the models that arrive, the bases of those that are rebuilt, and the chunks of
        their steps in the order of cycles.
        """
        end = time.monotonic() + batch.budget_s
        held = self._held(batch.arm)
        made = self._rebuilt(batch, data[len(batch.arriving) :])
        if held is not None and held.cycle == batch.cycle:  # these were lost with another process
            reply = self._train_lines(batch, made, chunk, end)
            held.take_over(made)
            return reply
        if held is None or held.cycle != batch.since:
            held = self.lines[batch.arm] = made
        elif len(made):
            held.take_over(made)
        self._arrange(batch, held, data)
        return self._train_lines(batch, held, chunk, end)

    def export_rows(self, arm: str, line: int) -> Any:
        """A line's rows, for a process that has other lines of the arm."""
        return self._line(arm, line).rows_of(line)

    def export_model(self, arm: str, line: int) -> LineSnapshot:
        """A line's complete model."""
        return self._snapshot(self._line(arm, line), line)

    def _train_lines(
        self, batch: LineBatch, lines: AnyLines, chunk: AnyChunk, end: float
    ) -> LineReply:
        tasks = {task.instance: task for task in batch.tasks}
        outcomes: list[Outcome] = []
        raised: dict[int, str] = {}
        rows: dict[int, Any] = {}

        def failed(line: int, error: Exception) -> None:
            raised[line] = reason_of(error)

        def work(line: int, tables: Any) -> bool:
            if time.monotonic() >= end:
                return False
            try:
                outcome = self.train_one(chunk, tables, tasks[line], end).outcome
            except Exception as error:  # whatever it is: this line fails, with the reason
                failed(line, error)
                return False
            outcomes.append(outcome)
            retained = outcome.status is Status.RETAINED
            if retained and line in batch.served:
                rows[line] = self.trainer.copy_of(tables)
            return retained

        served = lines.see(chunk, batch.cycle, work, self.spare, score=batch.serve, failed=failed)
        retained = {o.instance for o in outcomes if o.status is Status.RETAINED}
        snapshots = {line: self._snapshot(lines, line) for line in batch.due & retained}
        return LineReply(tuple(outcomes), raised, served, rows, snapshots)

    def _rebuilt(self, batch: LineBatch, data: tuple[Any, ...]) -> AnyLines:
        assert batch.options is not None
        bases, chunks = data[: len(batch.rebuilds)], data[len(batch.rebuilds) :]
        cycles = sorted({step.cycle for one in batch.rebuilds for step in one.steps})
        at = dict(zip(cycles, chunks, strict=True))
        wanted = list(zip(batch.rebuilds, bases, strict=True))
        return rebuild(self.trainer, batch.options, wanted, at.__getitem__, self.spare)

    def _arrange(self, batch: LineBatch, lines: AnyLines, data: tuple[Any, ...]) -> None:
        """Have exactly the lines of the batch."""
        for line, parent in batch.copies:
            lines.copy(line, parent)
        for line, given in zip(batch.arriving, data, strict=False):
            if isinstance(given, LineSnapshot):
                lines.load(line, self.trainer.load(given.data, f"line {line}"))
            else:
                lines.put(line, given)
        wanted = [task.instance for task in batch.tasks]
        lines.keep_only(wanted)
        missing = [line for line in wanted if line not in lines]
        if missing:
            raise NotHeldError(f"cycle {batch.cycle}, arm {batch.arm}: no line {missing[0]} here")

    def _held(self, arm: str) -> AnyLines | None:
        held = self.lines.get(arm)
        return held if held else None

    def _line(self, arm: str, line: int) -> AnyLines:
        held = self._held(arm)
        if held is None or line not in held:
            raise NotHeldError(f"arm {arm}: no line {line} here")
        return held

    def _snapshot(self, lines: AnyLines, line: int) -> LineSnapshot:
        return LineSnapshot.of(self.trainer.save(lines.as_model(line), rows=True))
