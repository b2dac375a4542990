"""An arm's line of models through a run: warm start, instances, champion, and so on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from divergence.bound import rho0
from orchestrator.config.rules import initial_mu, kernel_rule
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.space import Space, space_of
from orchestrator.journal.models import read_model
from orchestrator.journal.record import CycleRecord, FileRef
from orchestrator.pool.messages import ArmResult, Task
from orchestrator.pool.progress import Pace
from orchestrator.search.sampler import Draws, SearchState, ask, following, tell
from orchestrator.storage.store import Store
from trainer.chunk import Chunk
from trainer.kernel import Tables
from trainer.model import Changes, Model, ModelConfig, WorkingSet
from trainer.modelfile import load_model, save_model
from trainer.setting import Setting


@dataclass(frozen=True, slots=True)
class Plan:
    """What an arm does in a cycle: from which rows, with which settings, how cautiously."""

    working_set: WorkingSet
    tasks: tuple[Task, ...]
    caution: int


class ArmState:
    """What an arm is between two cycles."""

    def __init__(self, config: RunConfig, arm: ArmConfig, model: Model) -> None:
        """An arm that has no champion yet."""
        self.arm, self.model = arm, model
        self.search = SearchState()
        self.files: tuple[FileRef, ...] = ()
        """The champion's files; only commits change them."""
        self.crowned = False
        """Whether there is a champion."""
        self.pace = Pace()
        self._settings = config.search
        self._space: Space = space_of(config, arm, rho0(model.shape.ad))
        self._expire_after = config.model.expire_after
        self._sums_kept = config.model.accumulators.decay

    @property
    def sample_rule(self) -> Any:
        """The arm's rule with parameters of no matter, to compile for."""
        return kernel_rule(self.arm.rule, Setting(1.0, 1.0, 0.5, rho=1.0, lam=0.1, dual_step=1.0))

    def plan(self, cycle: int, chunk: Chunk, draws: Draws, leader: SearchState | None) -> Plan:
        """The arm's part in a cycle; `leader` is the state that all arms follow, if any."""
        state = self.search if leader is None else following(self.search, leader)
        rows = self.gather(cycle, chunk)
        settings = ask(self._settings, self._space, state, draws)
        rules = (kernel_rule(self.arm.rule, setting) for setting in settings)
        tasks = [Task(i, s, r) for i, (s, r) in enumerate(zip(settings, rules, strict=True))]
        return Plan(rows, tuple(tasks), state.caution)

    def gather(self, cycle: int, chunk: Chunk) -> WorkingSet:
        """The rows that the arm's instances of this cycle begin with."""
        return self.model.gather(
            chunk, cycle, mu0=initial_mu(self.arm.rule), sums_kept=self._sums_kept
        )

    def learn(self, result: ArmResult) -> None:
        """What the outcomes mean for the next draws."""
        self.search = tell(self.search, result.outcomes, result.winner)

    def take_over(self, cycle: int, chunk: Chunk, start: WorkingSet, won: Tables) -> Changes:
        """Make a winner's rows the champion's, and forget what was long unseen."""
        changes = self.model.scatter(chunk, cycle, start, won)
        if self._expire_after is not None:
            changes = changes.with_dropped(self.model.expire(cycle - self._expire_after))
        self.crowned = True
        return changes


def open_arms(
    config: RunConfig, model: ModelConfig, store: Store, records: Mapping[str, CycleRecord]
) -> dict[str, ArmState]:
    """The lines of all arms as the last committed cycle left them; of new ones, empty."""
    lines = {}
    for arm in config.arms:
        record = records.get(arm.name)
        files = record.model if record else ()
        line = ArmState(config, arm, read_model(store, files, model))
        line.crowned, line.files = bool(files), files
        line.search = record.search if record else line.search
        lines[arm.name] = line
    return lines


def begin_from(line: ArmState, other: ArmState) -> None:
    """Give an arm that begins now what another has by now: its champion and its setting."""
    line.model = load_model(save_model(other.model), other.arm.name, other.model.config)
    # The other rule's multipliers mean nothing to this one.
    line.model.set_mu(initial_mu(line.arm.rule))
    line.crowned = other.crowned
    line.search = following(SearchState(), other.search)
