"""An arm's line of models through a run: warm start, instances, champion, and so on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from divergence.bound import rho0
from orchestrator.arm_round import Pace
from orchestrator.config import ArmConfig, RunConfig
from orchestrator.record import CycleRecord, FileRef
from orchestrator.rules import kernel_rule
from orchestrator.search import Draws, SearchState, Space, ask, following, space_of, tell
from orchestrator.store import Store, read
from orchestrator.work import ArmResult, Task
from trainer.chunk import Chunk
from trainer.features import FeatureSpec
from trainer.kernel import Tables
from trainer.model import Changes, Model, ModelConfig, WorkingSet
from trainer.modelfile import apply_delta, load_model, save_model
from trainer.setting import Setting


@dataclass(frozen=True, slots=True)
class Plan:
    """What an arm does in a cycle: from which rows, with which settings, how cautiously."""

    working_set: WorkingSet
    tasks: tuple[Task, ...]
    caution: int


class Line:
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
        return self.model.gather(chunk, cycle, mu0=mu0_of(self.arm), sums_kept=self._sums_kept)

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


def mu0_of(arm: ArmConfig) -> float:
    """What a vector's multiplier begins with under the arm's rule."""
    return float(getattr(arm.rule, "mu0", 0.0))


def model_config(config: RunConfig, spec: FeatureSpec) -> ModelConfig:
    """What the run's models are made of."""
    m = config.model
    return ModelConfig(spec, m.overlap, m.alone, m.init_std, config.seed)


def open_lines(
    config: RunConfig, model: ModelConfig, store: Store, records: Mapping[str, CycleRecord]
) -> dict[str, Line]:
    """The lines of all arms as the last committed cycle left them; of new ones, empty."""
    lines = {}
    for arm in config.arms:
        record = records.get(arm.name)
        files = record.model if record else ()
        line = Line(config, arm, read_model(store, files, model))
        line.crowned, line.files = bool(files), files
        line.search = record.search if record else line.search
        lines[arm.name] = line
    return lines


def begin_from(line: Line, other: Line) -> None:
    """Give an arm that begins now what another has by now: its champion and its setting."""
    line.model = load_model(save_model(other.model), other.arm.name, other.model.config)
    line.model.set_mu(mu0_of(line.arm))  # the other rule's multipliers mean nothing to this one
    line.crowned = other.crowned
    line.search = following(SearchState(), other.search)


def read_model(store: Store, files: Sequence[FileRef], config: ModelConfig) -> Model:
    """The model in a full file and its deltas; an empty one where there are no files."""
    if not files:
        return Model(config)
    base, *deltas = files
    model = load_model(read(store, base.path), base.path, config)
    for delta in deltas:
        apply_delta(model, read(store, delta.path), delta.path)
    return model
