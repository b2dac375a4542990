"""An arm between two cycles: its champion, its search, and how a cycle changes them."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

from divergence.rules import Rule
from orchestrator.config.rules import any_kernel_rule, initial_mu, kernel_rules
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.space import Space, space_of
from orchestrator.journal.models import trainer_of
from orchestrator.journal.record import FileRef, LinesRecord
from orchestrator.loop.prefetch import PreparedChunk
from orchestrator.pool.messages import ArmResult, Task
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.search.sampler import Draws, SearchState, ask, tell, with_leader_steps
from trainer.draft import Draft, draft_of
from trainer.model import Changes
from trainer.offset import Offset


@dataclass(frozen=True, slots=True)
class Plan:
    """What an arm does in a cycle: on which events, from which rows, with which settings.

    What chunk and rows are, the trainer knows.
    """

    cycle: int
    chunk: Any
    shared_chunk: Any
    """The chunk where trainers read it."""
    working_set: Any
    """None for lines: the actors gather for themselves."""
    tasks: tuple[Task, ...]
    caution: int
    """How cautiously the settings are drawn; 0 is normal."""
    draft: Any = None
    """The working set as a draft where trainers read it, if it was one; `won` completes it."""
    won: "Promotion | None" = None


@dataclass(frozen=True, slots=True)
class NextDraft:
    """The draft of an arm's working set in a cycle, also where trainers read it."""

    cycle: int
    draft: Draft
    shared: Any


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a cycle's winner changed in the model, its rows, and where trainers read them.

    As long as the driver holds the rows, Ray keeps them on the driver's node: they outlive the
    node that trained them.
    """

    cycle: int
    changes: Changes
    rows: Any
    shared: Any


class ArmState:
    """An arm's champion and search."""

    mean_of = 1
    """How many lines the served model is the mean of."""

    def __init__(self, config: RunConfig, arm: ArmConfig, model: Any) -> None:
        """An arm that has no champion yet; `model` is what it serves."""
        self.config = arm
        self.model: Any = model
        """An `AnyModel`: what it is, the trainer knows."""
        self.trainer = trainer_of(config, model.config.spec)
        self.search = SearchState()
        self.files: tuple[FileRef, ...] = ()
        """The champion's files; only commits change them."""
        self.has_champion = False
        self.pace = Pace()
        self.snapshots: dict[str, Any] = {}
        """Models of lines to write with the next commit, by path."""
        self.lineages: LinesRecord | None = None
        self._search_config = config.search
        self._space: Space = space_of(config, arm, self.trainer.rho0)
        self._expire_after = config.model.expire_after
        self._sums_kept = config.model.accumulators.decay
        self._changing = Lock()
        """Held while the model changes, or is read by another thread for a draft."""
        self._draft: NextDraft | None = None
        self._promoted: Promotion | None = None
        self._can_draft = isinstance(self.trainer, Offset)
        """Whether trainers can read a winner's rows: a draft needs that. It is of OFFSET's rows."""

    @property
    def name(self) -> str:
        """The arm's name."""
        return self.config.name

    @property
    def sample_rule(self) -> Rule:
        """The arm's rule with arbitrary parameters, to compile kernels for."""
        return any_kernel_rule(self.config.rule)

    def start_from(self, other: "ArmState") -> None:
        """Copy another arm's champion and setting: this arm starts now."""
        champion = other.champion_model()
        copy = self.trainer.load(self.trainer.save(champion), other.name)
        copy.set_mu(initial_mu(self.config.rule))  # the other's mean nothing to this rule
        self.search = with_leader_steps(SearchState(), other.search)
        self.begin_with(copy, other.has_champion)

    def begin_with(self, model: Any, is_champion: bool = True) -> None:
        """Start with this model, which has learnt something if it is a champion."""
        self.model, self.has_champion = model, is_champion
        self._draft = self._promoted = None

    def champion_model(self) -> Any:
        """The champion, as it is trained on."""
        return self.model

    def plan(self, prepared: PreparedChunk, draws: Draws, leader: SearchState | None) -> Plan:
        """The arm's part in a cycle; `leader` is the search that all arms follow, if any."""
        assert prepared.chunk is not None
        state = self.search if leader is None else with_leader_steps(self.search, leader)
        settings = ask(self._search_config, self._space, state, draws)
        made = zip(settings, kernel_rules(self.config.rule, settings), strict=True)
        tasks = (Task(i, setting, rule) for i, (setting, rule) in enumerate(made))
        rows, *shared = self._start_rows(prepared.cycle, prepared.chunk)
        return Plan(
            prepared.cycle,
            prepared.chunk,
            prepared.shared,
            rows,
            tuple(tasks),
            state.caution,
            *shared,
        )

    def draft_next(self, plan: Plan, then: PreparedChunk, share: Callable[[Draft], Any]) -> None:
        """Gather for the next cycle what does not depend on the winner of this one.

        Called by another thread while the plan is trained. Once the model has changed it is too
        late: the next plan gathers all rows.
        """
        with self._changing:
            if then.chunk is None or not self._can_draft or self.model.cycle >= plan.cycle:
                return
            draft = draft_of(
                self.model,
                plan.chunk,
                then.chunk,
                then.cycle,
                mu0=initial_mu(self.config.rule),
                sums_kept=self._sums_kept,
                expire_after=self._expire_after,
            )
        self._draft = NextDraft(then.cycle, draft, share(draft))

    def _start_rows(self, cycle: int, chunk: Any) -> tuple[Any, Any, Promotion | None]:
        """The rows from which a cycle starts; if there is a draft of them that holds, also where
        trainers read it, and what completes it."""
        draft, won = self._draft, self._promoted
        self._draft = self._promoted = None
        if draft is None or won is None or (draft.cycle, won.cycle) != (cycle, cycle - 1):
            return self.gather(cycle, chunk), None, None
        return draft.draft.located(won.changes), draft.shared, won

    def gather(self, cycle: int, chunk: Any) -> Any:
        """The rows from which all instances of a cycle start."""
        mu0 = initial_mu(self.config.rule)
        return self.model.gather(chunk, cycle, mu0=mu0, sums_kept=self._sums_kept)

    def progress(self, plan: Plan, share: Callable[[Any], Any]) -> ArmProgress:
        """The plan as the pool takes it; `share` puts the rows where trainers read them."""
        assert plan.working_set is not None
        return ArmProgress(
            self.name,
            plan.cycle,
            plan.tasks,
            len(plan.chunk),
            self.pace,
            chunk=plan.shared_chunk,
            start=share(plan.working_set.tables) if plan.draft is None else plan.draft,
            won=plan.won.shared if plan.won is not None else None,
            serve=self.has_champion,
        )

    def adopt(self, plan: Plan, result: ArmResult) -> Any:
        """Learn from a cycle: the winner becomes the champion. None where there is no winner."""
        self.search = tell(self.search, result.outcomes, result.winner)
        if result.tables is None:
            return None
        assert plan.working_set is not None
        changes = self.promote(plan.cycle, plan.chunk, plan.working_set, result.tables)
        self._can_draft = isinstance(self.trainer, Offset) and result.shared is not None
        if self._can_draft:
            self._promoted = Promotion(plan.cycle, changes, result.tables, result.shared)
        return changes

    def without_events(self) -> None:
        """A cycle had no events."""

    def promote(self, cycle: int, chunk: Any, start: Any, won: Any) -> Any:
        """Write a winner's rows into the model, and drop the vectors that have expired."""
        with self._changing:
            changes = self.model.scatter(chunk, cycle, start, won)
            if self._expire_after is not None:
                changes = changes.with_dropped(self.model.expire(cycle - self._expire_after))
        self.has_champion = True
        return changes
