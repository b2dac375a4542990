"""Any instance of any cycle, trained again to the same bits from what the run folder holds."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from divergence.errors import InputError
from orchestrator.config import ArmConfig, RunConfig, feature_spec
from orchestrator.journal import check_files, read_record
from orchestrator.line import Line, model_config, read_model
from orchestrator.record import ChunkInfo, CycleRecord, DamagedError, FileRef
from orchestrator.rules import kernel_rule
from orchestrator.run_folder import run_config
from orchestrator.sources.files.config import FollowConfig
from orchestrator.sources.opening import open_source
from orchestrator.store import Store
from trainer.chunk import Chunk, compile_chunk
from trainer.instance import Job
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
    config = run_config(store)
    arm = _arm(config, arm_name)
    record = _record(store, arm.name, cycle)
    recorded = next((o for o in record.outcomes if o.instance == instance), None)
    if recorded is None:
        known = f"0 to {len(record.outcomes) - 1}" if record.outcomes else "none"
        raise InputError(f"--instance {instance}: cycle {cycle} of {arm.name} has {known}")
    stopped = threading.Event()
    stopped.set()
    place = store.uri if isinstance(config.source, FollowConfig) else None
    source = open_source(config.source, feature_spec(config.features), place, stopped)
    events = source.events(cycle)
    if events is None or len(events.table) != record.chunk.events:
        raise InputError(f"cycle {cycle}: the source no longer gives the events it was trained on")
    chunk = compile_chunk(events.table, source.spec)
    _check_chunk(chunk, record.chunk, cycle)
    files = _files_before(config, store, arm, cycle)
    line = Line(config, arm, read_model(store, files, model_config(config, source.spec)))
    job = Job(source.spec, line.model.shape, config.model.tau)
    rule = kernel_rule(arm.rule, recorded.setting)
    start = line.gather(cycle, chunk).tables
    trajectory = trace(job, chunk, start, recorded.setting, rule)
    return Replay(arm.name, cycle, recorded, trajectory, _same(recorded, trajectory.outcome))


def _arm(config: RunConfig, name: str | None) -> ArmConfig:
    found = [arm for arm in config.arms if name in (None, arm.name)]
    if not found:
        raise InputError(f"--arm {name}: must be one of {', '.join(a.name for a in config.arms)}")
    return found[0]


def _record(store: Store, arm: str, cycle: int) -> CycleRecord:
    try:
        return read_record(store, arm, cycle)
    except DamagedError as fault:
        raise InputError(f"{store.uri}/{fault}") from None


def _files_before(config: RunConfig, store: Store, arm: ArmConfig, cycle: int) -> Sequence[FileRef]:
    """The champion that the cycle started from."""
    if cycle > arm.first_cycle:
        files = _record(store, arm.name, cycle - 1).model
    elif arm.start_from is not None:
        files = _record(store, arm.start_from.arm, cycle - 1).model
    else:
        return ()
    try:
        check_files(store, files, {})
    except DamagedError as fault:
        raise InputError(
            f"{store.uri}/{fault}: cycle {cycle} started from it; which models a run keeps is "
            f"said by retention (keep_last is {config.retention.keep_last})"
        ) from None
    return files


def _check_chunk(chunk: Chunk, info: ChunkInfo, cycle: int) -> None:
    if (int(chunk.click.sum()), chunk.constant_logloss) != (info.clicks, info.constant_logloss):
        raise InputError(f"cycle {cycle}: the source no longer gives the events it was trained on")


def _same(recorded: Outcome, now: Outcome) -> bool | None:
    if recorded.status in (Status.FAILED, Status.LATE):
        return None
    return _bits(recorded) == _bits(now)


def _bits(outcome: Outcome) -> bytes:
    return OUTCOME.dump_json(replace(outcome, instance=0, seconds=0.0, tries=1))
