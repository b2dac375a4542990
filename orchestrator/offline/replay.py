"""Train any instance of any cycle again, to the same bits, from the run folder and the source."""

import threading
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from divergence.errors import InputError
from orchestrator.config.rules import initial_mu, kernel_rule
from orchestrator.config.schema import ArmConfig, StartFromRun, feature_spec
from orchestrator.config.trainer_checks import require_offset
from orchestrator.journal.journal import check_files, cycles_of, read_record
from orchestrator.journal.models import champion_in, read_trained, served_trainer, trainer_of
from orchestrator.journal.record import CorruptError, CycleRecord, winning_outcome
from orchestrator.journal.run_folder import run_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.lines_arm import line_options
from orchestrator.loop.resume import is_what_was_trained
from orchestrator.loop.start_run import started_model
from orchestrator.offline.line_history import LineHistory
from orchestrator.sources.opening import open_source
from orchestrator.storage.store import Store
from trainer.chunk import Chunk
from trainer.instance import Job, Trained
from trainer.model import WorkingSet
from trainer.norm_table import norm_table
from trainer.offset import Offset
from trainer.outcome import Outcome, Status
from trainer.trajectory import Trajectory

OUTCOME = TypeAdapter(Outcome)


@dataclass(frozen=True, slots=True)
class Replay:
    """An instance as recorded and as trained again.

    `same` says whether the outcomes agree bit for bit; None if the recorded instance failed or was
    late, so that there is nothing to compare.
    """

    arm: str
    cycle: int
    recorded: Outcome
    trajectory: Trajectory
    same: bool | None


def replay(store: Store, arm_name: str | None, cycle: int, instance: int) -> Replay:
    """Train an instance again; of the first arm if none is named."""
    history = History(store)
    arm = history.arm(arm_name)
    recorded, chunk, state = history.before(arm, cycle, instance)
    rule = kernel_rule(arm.rule, recorded.setting)
    start = state.gather(cycle, chunk).tables
    trajectory = history.trainer.trace(chunk, start, recorded.setting, rule)
    return Replay(arm.name, cycle, recorded, trajectory, _same(recorded, trajectory.outcome))


@dataclass(frozen=True, slots=True)
class Retrained:
    """An instance that was trained again, with the recorded outcome, and what it started from."""

    arm: ArmConfig
    cycle: int
    recorded: Outcome
    chunk: Chunk
    state: ArmState
    start: WorkingSet
    trained: Trained


def retrained(history: "History", arm_name: str | None, cycle: int, instance: int) -> Retrained:
    """Train an instance of OFFSET again; InputError if the outcome is not the recorded one."""
    _ = history.job
    arm = history.arm(arm_name)
    recorded, chunk, state = history.before(arm, cycle, instance)
    start = state.gather(cycle, chunk)
    rule = kernel_rule(arm.rule, recorded.setting)
    trained = history.trainer.train(chunk, start.tables, recorded.setting, rule)
    if _same(recorded, trained.outcome) is False:
        raise InputError(
            f"instance {instance} of cycle {cycle} of {arm.name} gives another outcome when "
            "trained again: another version of Holdfast made this run"
        )
    return Retrained(arm, cycle, recorded, chunk, state, start, trained)


def vectors_at_end(found: Retrained) -> pd.DataFrame:
    """Every vector of an instance at its end: feature, value, norm (inf) and updates."""
    return norm_table(found.state.model, found.chunk, found.start, found.trained)


class History:
    """The past cycles of a run, from the journal, the kept models and the source."""

    def __init__(self, store: Store) -> None:
        self.store, self.config = store, run_config(store)
        stopped = threading.Event()
        stopped.set()  # do not wait for new files in a followed folder
        config = self.config
        run_uri = store.uri if config.source.records_cycles else None
        self.source = open_source(config.source, feature_spec(config.features), run_uri, stopped)
        self.trainer = trainer_of(config, self.source.spec)

    @property
    def job(self) -> Job:
        """What all instances of OFFSET have in common. InputError with another trainer."""
        return self._offset.job

    @property
    def _offset(self) -> Offset:
        require_offset(self.config, "showing single vectors")
        assert isinstance(self.trainer, Offset)
        return self.trainer

    def arm(self, name: str | None) -> ArmConfig:
        """The arm of this name; the first if None."""
        arms = {arm.name: arm for arm in self.config.arms}
        if name is not None and name not in arms:
            raise InputError(f"--arm {name}: must be one of {', '.join(arms)}")
        return self.config.arms[0] if name is None else arms[name]

    def record(self, arm: str, cycle: int) -> CycleRecord:
        """Read a record; InputError if it is missing or corrupt."""
        try:
            return read_record(self.store, arm, cycle)
        except CorruptError as error:
            raise InputError(f"{self.store.uri}/{error}") from None

    def before(self, arm: ArmConfig, cycle: int, instance: int) -> tuple[Outcome, Any, ArmState]:
        """A recorded outcome, the events of its cycle, and its arm's state before that cycle."""
        committed = cycles_of(self.store, arm.name)
        if cycle not in committed:
            ends = f"has cycles {committed[0]} to {committed[-1]}" if committed else "has none yet"
            raise InputError(f"--cycle {cycle}: must be a committed cycle: {arm.name} {ends}")
        record = self.record(arm.name, cycle)
        recorded = next((o for o in record.outcomes if o.instance == instance), None)
        if recorded is None:
            last = len(record.outcomes) - 1
            rule = f"must be from 0 to {last}" if record.outcomes else "there are no instances"
            raise InputError(f"--instance {instance}: {rule} in cycle {cycle} of {arm.name}")
        chunk = self.chunk(record)
        model = (
            self.model_before(arm, cycle)
            if record.lineages is None
            else self.lines(arm).before(cycle, instance)
        )
        return recorded, chunk, ArmState(self.config, arm, model)

    def lines(self, arm: ArmConfig) -> LineHistory:
        """The past of an arm's lines."""
        return LineHistory(
            self.store,
            arm,
            self.trainer,
            line_options(self.config, arm, self.trainer),
            lambda cycle: self.record(arm.name, cycle),
            self.chunk,
            lambda: self.model_before(arm, arm.first_cycle),
        )

    def chunk(self, record: CycleRecord) -> Any:
        """The events of a record's cycle; InputError if the source no longer returns the same."""
        events = self.source.events(record.cycle)
        spec = self.source.spec
        if events is not None and is_what_was_trained(events, spec, record.chunk):
            return self.trainer.compile(events.table)
        raise InputError(
            f"cycle {record.cycle}: the source no longer returns the events of this cycle"
        )

    def model_before(self, arm: ArmConfig, cycle: int) -> Any:
        """The champion that a cycle started from."""
        if cycle > arm.first_cycle:
            return self._model_after(arm, cycle - 1)
        if isinstance(arm.start_from, StartFromRun):
            return started_model(self.store, arm, self._offset.model)
        if arm.start_from is not None:
            model = self._model_after(self.arm(arm.start_from.arm), cycle - 1)
            model.set_mu(initial_mu(arm.rule))
            return model
        return self.trainer.new_model()

    def _model_after(self, arm: ArmConfig, cycle: int) -> Any:
        """The champion after a cycle: from its files, or by training the winners again."""
        record = self.record(arm.name, cycle)
        if record.lineages is not None and not self._has_files(arm.name, cycle):
            return self.lines(arm).champion_after(record)
        since = cycle
        while since >= arm.first_cycle and not self._has_files(arm.name, since):
            since -= 1
        if since >= arm.first_cycle:
            last = self.record(arm.name, since)
            served = served_trainer(self.config, self.source.spec)
            read = read_trained(self.store, last.model, served)
            model = champion_in(read, last, self.config, arm)
        else:
            model = self.model_before(arm, arm.first_cycle)
        state = ArmState(self.config, arm, model)
        for missing in range(since + 1, cycle + 1):
            self._retrain_winner(state, self.record(arm.name, missing))
        return state.model

    def _retrain_winner(self, state: ArmState, record: CycleRecord) -> None:
        winner = winning_outcome(record)
        if winner is None:
            return
        chunk = self.chunk(record)
        start = state.gather(record.cycle, chunk)
        rule = kernel_rule(state.config.rule, winner.setting)
        trained = self.trainer.train(chunk, start.tables, winner.setting, rule)
        if not _same(winner, trained.outcome):
            raise InputError(
                f"cycle {record.cycle} of {state.name}: its winner gives another outcome when "
                "trained again: another version of Holdfast made this run"
            )
        state.promote(record.cycle, chunk, start, trained.tables)

    def _has_files(self, arm: str, cycle: int) -> bool:
        try:
            check_files(self.store, self.record(arm, cycle).model, {})
        except CorruptError:
            return False
        return True


def _same(recorded: Outcome, now: Outcome) -> bool | None:
    if recorded.status in (Status.FAILED, Status.LATE):
        return None
    return _bits(recorded) == _bits(now)


def _bits(outcome: Outcome) -> bytes:
    return OUTCOME.dump_json(replace(outcome, instance=0, seconds=0.0, tries=1))
