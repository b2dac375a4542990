"""The models of lines in past cycles, made again from snapshots, records and the source."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.config.schema import ArmConfig
from orchestrator.journal.journal import check_files
from orchestrator.journal.record import (
    CorruptError,
    CycleRecord,
    FileRef,
    LinesRecord,
    ModelOrigin,
)
from orchestrator.loop.lines_arm import rebuild_of
from orchestrator.pool.lines.rebuild import rebuild
from orchestrator.storage.store import Store, read
from trainer.instance import Buffers
from trainer.lines import LineOptions
from trainer.mean_model import mean_model, member_of
from trainer.protocol import AnyChunk, Trainer

SNAPSHOT = re.compile(r"cycle-(\d+)-(?:line-(\d+)|champion)\.safetensors$")


@dataclass(frozen=True)
class LineHistory:
    """The past of an arm's lines. Snapshots that are gone are made again from older ones."""

    store: Store
    arm: ArmConfig
    trainer: Trainer
    options: LineOptions
    record: Callable[[int], CycleRecord]
    chunk: Callable[[CycleRecord], AnyChunk]
    first_model: Callable[[], Any]
    """The model that the arm started with."""

    def before(self, cycle: int, line: int) -> Any:
        """A line's model before a cycle."""
        made = self._made(self._origin_before(cycle, line), line, cycle - 1)
        return self.trainer.load(made, "line")

    def champion_after(self, record: CycleRecord) -> Any:
        """The champion after a cycle, as other lines start from it."""
        assert record.lineages is not None
        state = record.lineages.state
        if state.champion is None:
            return self.first_model()
        models = [self._after(record.lineages, line, record.cycle) for line in state.served]
        if not state.members:
            return models[0]
        seat = state.members.index(state.champion)
        bias, mu = models[seat].bias, self.options.mu0
        return member_of(mean_model(models), seat, self.options.model, bias, mu)

    def _after(self, lines: LinesRecord, line: int, cycle: int) -> Any:
        return self.trainer.load(self._made(lines.origins[line], line, cycle), f"line {line}")

    def _origin_before(self, cycle: int, line: int) -> ModelOrigin:
        lines = self.record(cycle - 1).lineages if cycle > self.arm.first_cycle else None
        if lines is not None:
            return lines.origins[line]
        model = self.first_model()
        return ModelOrigin(None, model.cycle)

    def _made(self, origin: ModelOrigin, line: int, last: int) -> bytes:
        """A line's model after the cycle `last`, as a file."""
        base = self._base(origin)
        since = self.arm.first_cycle - 1 if origin.base is None else origin.since
        records = {c: self.record(c) for c in range(max(since + 1, self.arm.first_cycle), last + 1)}
        cycles = [cycle for cycle, record in records.items() if record.chunk.events]
        lines = rebuild(
            self.trainer,
            self.options,
            [(rebuild_of(line, origin, cycles, self.arm), base)],
            lambda cycle: self.chunk(records[cycle]),
            Buffers(),
        )
        return self.trainer.save(lines.as_model(line), rows=True)

    def _base(self, origin: ModelOrigin) -> bytes | None:
        if origin.base is not None and self._is_kept(origin.base):
            return read(self.store, origin.base.path, origin.base.size)
        found = SNAPSHOT.search(origin.base.path) if origin.base is not None else None
        cycle = int(found[1]) if found else -1
        if cycle < self.arm.first_cycle:
            model = self.first_model()
            return None if model.is_new else self.trainer.save(model, rows=True)
        if found is None or found[2] is None:
            return self.trainer.save(self.champion_after(self.record(cycle)), rows=True)
        line = int(found[2])
        setting = self.record(cycle).outcomes[line].setting
        before = self._origin_before(cycle, line)
        return self._made(before.after(cycle, setting, trained=True), line, cycle)

    def _is_kept(self, file: FileRef) -> bool:
        try:
            check_files(self.store, [file], {})
        except CorruptError:
            return False
        return True
