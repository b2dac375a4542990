"""An arm whose instances are lines, between two cycles. The models of lines are in the pool."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from orchestrator.config.rules import initial_mu, kernel_rule
from orchestrator.config.schema import ArmConfig, LineagesSelect, RunConfig
from orchestrator.config.space import draw_width
from orchestrator.journal.journal import line_path
from orchestrator.journal.record import CycleRecord, FileRef, LinesRecord, ModelOrigin
from orchestrator.loop.arm_state import ArmState, Plan
from orchestrator.loop.prefetch import PreparedChunk
from orchestrator.pool.lines.progress import LinesPlan, LinesProgress
from orchestrator.pool.messages import LineSnapshot, LinesResult, Rebuild, Step, Task
from orchestrator.search.lineages import (
    CycleScores,
    Lineages,
    first_lines,
    judge,
    line_draws,
    together,
)
from orchestrator.search.sampler import Draws, SearchState, cycle_rng
from trainer.lines import LineOptions
from trainer.offset import Offset
from trainer.outcome import Status
from trainer.protocol import Trainer

SNAPSHOT_CYCLES = 24
"""How old a line's snapshot gets before there is a new one. A line that is lost with its process
is trained again on the chunks since then."""
ReadFile = Callable[[FileRef], bytes]


class LinesArm(ArmState):
    """The champion's model, what the search knows of each line, and how to make its model again."""

    def __init__(self, config: RunConfig, arm: ArmConfig, model: Any, read: ReadFile) -> None:
        """An arm that has no lines yet."""
        super().__init__(config, arm, model)
        assert isinstance(config.search.select, LineagesSelect)
        self._select, self._read = config.search.select, read
        self._seed, self._size = config.seed, config.search.instances
        self._width = draw_width(config)
        self.mean_of = config.serve.mean_of
        self._options = line_options(config, arm, self.trainer)
        self._biases = np.zeros((0, 2))
        """Of the lines whose mean is served, with their AdaGrad sums."""
        self._lines: Lineages | None = None
        self._origins: tuple[ModelOrigin, ...] = (ModelOrigin(None, -1),) * self._size
        self._since = -1
        """The cycle that all models are of."""
        self._parents: dict[int, int] = {}
        """The lines that are copied before the next cycle, and from which line."""
        self._chunks: dict[int, Any] = {}
        """The chunks since the oldest base, where trainers read them."""
        self._first_base: dict[str, Any] = {}
        """The model that all lines start from, by path, until it is committed."""

    # -- start and resume -----------------------------------------------------------------------

    def begin_with(self, model: Any, is_champion: bool = True) -> None:
        """All lines start with this model."""
        super().begin_with(model, is_champion)
        self.restart_from_champion()

    def restore(self, record: CycleRecord) -> None:
        """Continue after a record."""
        if record.lineages is not None:
            self.lineages = record.lineages
            self._lines, self._origins = record.lineages.state, record.lineages.origins
            self._since = record.lineages.cycle
        else:  # it may have started from another arm, and has had no events since
            self.restart_from_champion()

    def restart_from_champion(self) -> None:
        """All lines continue from the champion's model, with the settings that they have."""
        self._since = self.model.cycle
        if not self.has_champion:
            self._origins = (ModelOrigin(None, self._since),) * self._size
            return
        first = LineSnapshot.of(self.trainer.save(self.champion_model(), rows=True))
        base = _file_of(line_path(self.name, self._since, None), first)
        self._first_base = {base.path: first.data}
        self._origins = (ModelOrigin(base, self._since),) * self._size

    def needed_chunks(self) -> range:
        """The cycles whose chunks are needed to make the models again."""
        first = min(origin.since for origin in self._origins) + 1
        return range(max(first, self.config.first_cycle), self._since + 1)

    def recall(self, chunks: Mapping[int, Any]) -> None:
        """These are the chunks of past cycles, where trainers read them."""
        self._chunks = {cycle: chunks[cycle] for cycle in self.needed_chunks() if cycle in chunks}

    # -- a cycle --------------------------------------------------------------------------------

    def plan(self, prepared: PreparedChunk, draws: Draws, leader: SearchState | None) -> Plan:
        """Every line trains with its setting. The actors gather for themselves."""
        assert prepared.chunk is not None
        if self._lines is None:
            around = self.search.incumbent
            first = first_lines(self._select, self._space, around, self._draws(prepared.cycle))
            first = replace(first, champion=0 if self.has_champion else None)
            self._lines = replace(first, members=together(self.mean_of, (), first, ()))
        rule = self.config.rule
        tasks = (
            Task(i, line.setting, kernel_rule(rule, line.setting))
            for i, line in enumerate(self._lines.lines)
        )
        return Plan(prepared.cycle, prepared.chunk, prepared.shared, None, tuple(tasks), caution=0)

    def draft_next(self, plan: Plan, then: PreparedChunk, share: Callable[[Any], Any]) -> None:
        """There is nothing to draft: the actors gather for themselves."""

    def progress(self, plan: Plan, share: Callable[[Any], Any]) -> LinesProgress:
        """The plan as the pool takes it; `share` puts bases where trainers read them."""
        state = self._lines
        assert state is not None
        constant, draws = plan.chunk.constant_logloss, self._draws(plan.cycle)
        share_once = cache(lambda file: share(self._data(file)))
        lines = LinesPlan(
            name=self.name,
            cycle=plan.cycle,
            tasks=plan.tasks,
            events=len(plan.chunk),
            chunk=plan.shared_chunk,
            options=self._options,
            since=self._since,
            state=state,
            due=snapshots_due(self._origins, plan.cycle),
            parents=self._parents,
            recipe=lambda line: self._recipe(line, share_once),
            judge=lambda outcomes, served: judge(
                self._select,
                self._space,
                state,
                CycleScores(plan.cycle, constant, outcomes, served),
                draws,
                self.mean_of,
            ),
            served=lambda each: self._served(plan, each),
        )
        return LinesProgress(lines, self.pace)

    def adopt(self, plan: Plan, result: LinesResult) -> Any:  # type: ignore[override]
        """Learn from a cycle. None where the champion is another line, or there is none."""
        cycle, judgement, before = plan.cycle, result.judgement, self._lines
        assert before is not None
        self._lines, self._since = judgement.state, cycle
        self._parents = {one.line: one.parent for one in judgement.replaced}
        self._chunks[cycle] = plan.shared_chunk
        self._origins = self._grown(cycle, result)
        used = {origin.base.path for origin in self._origins if origin.base}
        self.snapshots = {path: file for path, file in self.snapshots.items() if path in used}
        oldest = self.needed_chunks().start
        self._chunks = {c: chunk for c, chunk in self._chunks.items() if c >= oldest}
        changes = self._follow(plan, result, before)
        biases = tuple((bias, total) for bias, total in self._biases.tolist())
        self.lineages = LinesRecord(
            cycle,
            self._lines,
            self._origins,
            tuple(result.each_served.get(i) for i in range(self._size)),
            judgement.replaced,
            judgement.why,
            biases if self._lines.members else (),
        )
        champion = self._lines.champion
        if champion is not None:
            self.search = SearchState(result.outcomes[champion].setting)
        return changes

    def without_events(self) -> None:
        """A cycle had no events: nothing has changed, and there is nothing new to write."""
        self.snapshots = {}
        if self.lineages is not None:
            unscored = (None,) * self._size
            self.lineages = replace(
                self.lineages, served=unscored, replaced=(), why="there were no events"
            )

    def _served(self, plan: Plan, each: Mapping[int, float]) -> float | None:
        """What was served on the chunk, where this is what each line would have."""
        champion = None if self._lines is None else self._lines.champion
        return None if champion is None else each.get(champion)

    def _follow(self, plan: Plan, result: LinesResult, before: Lineages) -> Any:
        """Let the driver's model be that of the champion."""
        for snapshot in result.models.values():
            self.model = self.trainer.new_model()  # two of them may be too large
            self.model = self._model_of(snapshot)
            self.has_champion, self.files = True, ()  # so that it is written in full
            return None
        if before.champion is None:
            return None
        rows = result.rows.get(before.champion)
        if rows is None:  # it has skipped the chunk
            start = self.gather(plan.cycle, plan.chunk)
            return self.promote(plan.cycle, plan.chunk, start, start.tables)
        start = self.model.found(plan.chunk, rows)
        return self.promote(plan.cycle, plan.chunk, start, rows)

    def _model_of(self, snapshot: LineSnapshot) -> Any:
        name = f"a line of {self.name} that is served from now on"
        return self.trainer.load(snapshot.data, name)

    # -- how to make a line's model again -------------------------------------------------------

    def _grown(self, cycle: int, result: LinesResult) -> tuple[ModelOrigin, ...]:
        """The origins after a cycle: with a new base, or with one more step."""
        self.snapshots, self._first_base = self._first_base, {}
        grown = []
        for outcome, origin in zip(result.outcomes, self._origins, strict=True):
            line, trained = outcome.instance, outcome.status is Status.RETAINED
            if trained and line in result.snapshots:
                file = _file_of(line_path(self.name, cycle, line), result.snapshots[line])
                self.snapshots[file.path] = result.snapshots[line].data
                grown.append(ModelOrigin(file, cycle))
            else:
                grown.append(origin.after(cycle, outcome.setting, trained))
        return tuple(grown[self._parents.get(line, line)] for line in range(self._size))

    def _recipe(
        self, line: int, share: Callable[[FileRef], Any]
    ) -> tuple[Rebuild, Any, dict[int, Any]]:
        origin = self._origins[line]
        chunks = {cycle: chunk for cycle, chunk in self._chunks.items() if cycle > origin.since}
        base = None if origin.base is None else share(origin.base)
        return rebuild_of(line, origin, chunks, self.config), base, chunks

    def _data(self, file: FileRef) -> Any:
        """A snapshot's bytes. The commit may not have written it yet."""
        found = (self.snapshots | self._first_base).get(file.path)
        return np.frombuffer(self._read(file), np.uint8) if found is None else found

    def _draws(self, cycle: int) -> Draws:
        return line_draws(cycle_rng(self._seed, cycle), self._size, self._width)


def line_options(config: RunConfig, arm: ArmConfig, trainer: Trainer) -> LineOptions:
    """What all lines of an arm have in common."""
    options, model = config.model, trainer.model if isinstance(trainer, Offset) else None
    return LineOptions(
        model, initial_mu(arm.rule), options.accumulators.decay, options.expire_after
    )


def _file_of(path: str, snapshot: LineSnapshot) -> FileRef:
    return FileRef(path, snapshot.sha256, len(snapshot.data))


def rebuild_of(line: int, origin: ModelOrigin, cycles: Iterable[int], arm: ArmConfig) -> Rebuild:
    """The steps of an origin in the given cycles, all of which had events."""
    steps = []
    for cycle in sorted(cycles):
        setting = origin.setting_in(cycle)
        rule = None if setting is None else kernel_rule(arm.rule, setting)
        steps.append(Step(cycle, setting, rule))
    return Rebuild(line, origin.since, tuple(steps))


def snapshots_due(origins: tuple[ModelOrigin, ...], cycle: int) -> frozenset[int]:
    """The lines of which this cycle takes a snapshot: a few at a time, the oldest first."""
    old = [i for i, origin in enumerate(origins) if cycle - origin.since >= SNAPSHOT_CYCLES]
    old.sort(key=lambda i: (origins[i].since, i))
    return frozenset(old[: math.ceil(len(origins) / SNAPSHOT_CYCLES)])
