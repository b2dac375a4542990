"""Any instance of any cycle, trained again to the same bits from what the run folder holds."""

import threading
from dataclasses import dataclass, replace

import pandas as pd
from pydantic import TypeAdapter

from divergence.errors import InputError
from orchestrator.config.rules import initial_mu, kernel_rule
from orchestrator.config.schema import ArmConfig, feature_spec
from orchestrator.journal.journal import check_files, read_record
from orchestrator.journal.models import model_config, read_model
from orchestrator.journal.record import CycleRecord, DamagedError, champion
from orchestrator.journal.run_folder import run_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.sources.files.config import FollowConfig
from orchestrator.sources.opening import open_source
from orchestrator.storage.store import Store
from trainer.chunk import Chunk, compile_chunk
from trainer.instance import Job, train
from trainer.model import Model
from trainer.norm_table import norm_table
from trainer.outcome import Outcome, Status
from trainer.trajectory import Trajectory, trace

OUTCOME = TypeAdapter(Outcome)


@dataclass(frozen=True, slots=True)
class Replay:
    """An instance as it is recorded and as it was trained again.

    `same` tells whether the outcomes agree in every bit; None where the recorded one was lost to
    something else than training.
    """

    arm: str
    cycle: int
    recorded: Outcome
    trajectory: Trajectory
    same: bool | None


def replay(store: Store, arm_name: str | None, cycle: int, instance: int) -> Replay:
    """Train an instance again; of the first arm, where none is named."""
    past = _Past(store)
    arm = past.arm(arm_name)
    recorded, chunk, line = past.before(arm, cycle, instance)
    rule = kernel_rule(arm.rule, recorded.setting)
    start = line.gather(cycle, chunk).tables
    trajectory = trace(past.job, chunk, start, recorded.setting, rule)
    return Replay(arm.name, cycle, recorded, trajectory, _same(recorded, trajectory.outcome))


def vectors_at_end(store: Store, arm_name: str, cycle: int, instance: int) -> pd.DataFrame:
    """Every vector of an instance as it stopped: feature, value, norm (inf) and updates."""
    past = _Past(store)
    arm = past.arm(arm_name)
    recorded, chunk, line = past.before(arm, cycle, instance)
    start = line.gather(cycle, chunk)
    rule = kernel_rule(arm.rule, recorded.setting)
    trained = train(past.job, chunk, start.tables, recorded.setting, rule)
    if _same(recorded, trained.outcome) is False:
        raise InputError(
            f"instance {instance} of cycle {cycle} of {arm.name} comes out otherwise when trained "
            "again: the run was made by another version"
        )
    return norm_table(line.model, chunk, start, trained)


class _Past:
    """What was, from the journal, the models that are left, and the source."""

    def __init__(self, store: Store) -> None:
        self.store, self.config = store, run_config(store)
        stopped = threading.Event()
        stopped.set()  # a followed folder is looked at as it is
        config = self.config
        place = store.uri if isinstance(config.source, FollowConfig) else None
        self.source = open_source(config.source, feature_spec(config.features), place, stopped)
        self.model_config = model_config(config, self.source.spec)
        self.job = Job(self.source.spec, self.model_config.shape, config.model.tau)

    def arm(self, name: str | None) -> ArmConfig:
        """The arm of this name, or the first."""
        arms = {arm.name: arm for arm in self.config.arms}
        if name is not None and name not in arms:
            raise InputError(f"--arm {name}: must be one of {', '.join(arms)}")
        return self.config.arms[0] if name is None else arms[name]

    def record(self, arm: str, cycle: int) -> CycleRecord:
        """A record that must be there."""
        try:
            return read_record(self.store, arm, cycle)
        except DamagedError as fault:
            raise InputError(f"{self.store.uri}/{fault}") from None

    def before(self, arm: ArmConfig, cycle: int, instance: int) -> tuple[Outcome, Chunk, ArmState]:
        """A recorded instance, its events, and its arm as that cycle found it."""
        record = self.record(arm.name, cycle)
        recorded = next((o for o in record.outcomes if o.instance == instance), None)
        if recorded is None:
            known = f"0 to {len(record.outcomes) - 1}" if record.outcomes else "none"
            raise InputError(f"--instance {instance}: cycle {cycle} of {arm.name} has {known}")
        chunk = self.chunk(record)
        return recorded, chunk, ArmState(self.config, arm, self.model_before(arm, cycle))

    def chunk(self, record: CycleRecord) -> Chunk:
        """The events of a record's cycle; refused where they are no longer the same."""
        events = self.source.events(record.cycle)
        if events is not None and len(events.table):
            chunk = compile_chunk(events.table, self.source.spec)
            then = record.chunk
            now = (len(chunk), int(chunk.click.sum()), chunk.constant_logloss)
            if now == (then.events, then.clicks, then.constant_logloss):
                return chunk
        raise InputError(
            f"cycle {record.cycle}: the source no longer gives the events that it was trained on"
        )

    def model_before(self, arm: ArmConfig, cycle: int) -> Model:
        """The champion that a cycle of an arm started from."""
        if cycle > arm.first_cycle:
            return self._model_after(arm, cycle - 1)
        if arm.start_from is not None:
            model = self._model_after(self.arm(arm.start_from.arm), cycle - 1)
            model.set_mu(initial_mu(arm.rule))
            return model
        return Model(self.model_config)

    def _model_after(self, arm: ArmConfig, cycle: int) -> Model:
        """From its files or, where these are gone, by training the winners since once more."""
        since = cycle
        while since >= arm.first_cycle and not self._has_files(arm.name, since):
            since -= 1
        if since >= arm.first_cycle:
            model = read_model(self.store, self.record(arm.name, since).model, self.model_config)
        else:
            model = self.model_before(arm, arm.first_cycle)
        line = ArmState(self.config, arm, model)
        for missing in range(since + 1, cycle + 1):
            self._win_again(line, self.record(arm.name, missing))
        return line.model

    def _win_again(self, line: ArmState, record: CycleRecord) -> None:
        won = champion(record)
        if won is None:
            return
        chunk = self.chunk(record)
        start = line.gather(record.cycle, chunk)
        rule = kernel_rule(line.arm.rule, won.setting)
        trained = train(self.job, chunk, start.tables, won.setting, rule)
        if not _same(won, trained.outcome):
            raise InputError(
                f"cycle {record.cycle} of {line.arm.name}: its winner comes out otherwise when "
                "trained again: the run was made by another version"
            )
        line.take_over(record.cycle, chunk, start, trained.tables)

    def _has_files(self, arm: str, cycle: int) -> bool:
        try:
            check_files(self.store, self.record(arm, cycle).model, {})
        except DamagedError:
            return False
        return True


def _same(recorded: Outcome, now: Outcome) -> bool | None:
    if recorded.status in (Status.FAILED, Status.LATE):
        return None
    return _bits(recorded) == _bits(now)


def _bits(outcome: Outcome) -> bytes:
    return OUTCOME.dump_json(replace(outcome, instance=0, seconds=0.0, tries=1))
