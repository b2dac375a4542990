"""An arm of lines that serves the mean of the best few, as one model that is as wide as they are
together."""

from collections.abc import Mapping

import numpy as np

from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.loop.arm_state import Plan
from orchestrator.loop.lines_arm import LinesArm, ReadFile
from orchestrator.pool.messages import LinesResult
from orchestrator.search.lineages import Lineages
from trainer.chunk import Chunk
from trainer.instance import Buffers
from trainer.mean_model import (
    mean_bias,
    mean_like,
    mean_model,
    member_of,
    put_member,
    put_members,
)
from trainer.model import Changes, Model, WorkingSet
from trainer.rows import warm_up_rows
from trainer.scoring import distinct_ads, served_logloss, warm_up_predict


class MeanArm(LinesArm):
    """`model` is the mean. In each cycle, the rows of its members change; a line that becomes a
    member is put in whole."""

    def __init__(self, config: RunConfig, arm: ArmConfig, model: Model, read: ReadFile) -> None:
        """An arm that has no lines yet; compiles what scores the mean."""
        super().__init__(config, arm, model, read)
        warm_up_predict(model.shape)
        warm_up_rows()
        self._biases = np.zeros((self.mean_of, 2))
        self._start: WorkingSet | None = None
        """The rows of a chunk while it is trained on."""
        self._buffers = Buffers()

    # -- start and resume -----------------------------------------------------------------------

    def begin_with(self, model: Model, is_champion: bool = True) -> None:
        """All lines start with this model: the mean of them is the same."""
        self._biases[:] = model.bias
        super().begin_with(mean_model([model] * self.mean_of), is_champion)

    def restore(self, record: CycleRecord) -> None:
        """Continue after a record."""
        lines = record.lineages
        self._biases[:] = lines.biases if lines is not None and lines.biases else self.model.bias
        super().restore(record)

    def champion_model(self) -> Model:
        """The champion's own model, with new multipliers: the mean has none."""
        state, seat = self._lines, 0
        if state is not None and state.champion is not None:
            seat = state.members.index(state.champion)
        options = self._options
        return member_of(self.model, seat, options.model, self._biases[seat], options.mu0)

    def restart_from_champion(self) -> None:
        """All lines continue from the champion's model, and so does the mean."""
        super().restart_from_champion()
        if self._lines is not None and self._lines.members:
            champion = self.champion_model()
            self.model, self.files = mean_model([champion] * self.mean_of), ()
            self._biases[:] = champion.bias

    # -- a cycle --------------------------------------------------------------------------------

    def gather(self, cycle: int, chunk: Chunk) -> WorkingSet:
        """The rows of the mean that a chunk touches, which can be written."""
        found: WorkingSet = self.model.gather(chunk, cycle, sums_kept=self._sums_kept)
        for array in found.tables:  # they are nobody else's
            array.setflags(write=True)
        return found

    def adopt(self, plan: Plan, result: LinesResult) -> Changes | None:  # type: ignore[override]
        """Learn from a cycle. None where the mean has other members, or there is none."""
        changes: Changes | None = super().adopt(plan, result)
        self._start = None
        return changes

    def _served(self, plan: Plan, each: Mapping[int, float]) -> float | None:
        """The log-loss of the mean itself."""
        if not self.has_champion:
            return None
        chunk, shape = plan.chunk, self.model.shape
        start = self._start = self.gather(plan.cycle, chunk)
        ads = distinct_ads(shape, chunk)
        return served_logloss(shape, chunk, ads, start.tables, self._buffers)

    def _follow(self, plan: Plan, result: LinesResult, before: Lineages) -> Changes | None:
        """Let the members be as they are now."""
        changes = self._train_members(plan, result, before) if self.has_champion else None
        for line, snapshot in result.models.items():
            model = self._model_of(snapshot)
            if not self.has_champion:
                self.model, self.has_champion = mean_like(model, self.mean_of), True
            assert self._lines is not None
            seat = self._lines.members.index(line)
            put_member(self.model, seat, model)
            self._biases[seat] = model.bias
        if self.has_champion:
            self.model.bias[:] = mean_bias(self._biases)
        if not result.models:
            return changes
        self.files = ()  # so that it is written in full
        return None

    def _train_members(self, plan: Plan, result: LinesResult, before: Lineages) -> Changes:
        """Write the rows that members have trained into the mean. Some may have skipped it."""
        start, since = self._start or self.gather(plan.cycle, plan.chunk), self.model.cycle
        rows = [result.rows.get(line) for line in before.members]
        for seat, tables in enumerate(rows):
            if tables is not None:
                self._biases[seat] = tables.bias
            elif since >= 0:
                self._biases[seat, 1] *= self._sums_kept ** (plan.cycle - since)
        put_members(start, self.model.shape, self._options.model, plan.chunk, rows)
        changes: Changes = self.promote(plan.cycle, plan.chunk, start, start.tables)
        return changes
