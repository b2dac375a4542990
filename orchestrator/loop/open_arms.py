"""The arms of a run, as its last committed cycle left them."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from divergence.errors import InputError
from orchestrator.config.schema import ArmConfig, LineagesSelect, RunConfig, StartFromRun
from orchestrator.journal.journal import read_record
from orchestrator.journal.models import read_trained, served_trainer
from orchestrator.journal.record import ChunkInfo, CycleRecord
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.lines_arm import LinesArm
from orchestrator.loop.mean_arm import MeanArm
from orchestrator.loop.prefetch import prepare_chunk
from orchestrator.loop.resume import is_what_was_trained
from orchestrator.loop.start_run import copy_start
from orchestrator.sources.protocol import Source
from orchestrator.storage.store import Store, read
from trainer.offset import Offset
from trainer.protocol import AnyChunk, Trainer

log = logging.getLogger(__name__)


def open_arms(
    config: RunConfig, trainer: Trainer, store: Store, records: Mapping[str, CycleRecord]
) -> dict[str, ArmState]:
    """All arms by name; new ones are empty."""
    arms, reader = {}, served_trainer(config, trainer.spec)
    for arm in config.arms:
        record = records.get(arm.name)
        files = record.model if record else ()
        served = read_trained(store, files, reader)
        state = _new_arm(config, arm, served, store)
        state.has_champion, state.files = bool(files), files
        state.search = record.search if record else state.search
        if record is None and isinstance(arm.start_from, StartFromRun):
            assert isinstance(trainer, Offset), "the config allows it for OFFSET alone"
            started, state.search = copy_start(store, config, arm, trainer.model)
            state.begin_with(started)
        if isinstance(state, LinesArm) and record:
            state.restore(record)
        arms[arm.name] = state
    return arms


def recall_chunks(
    arms: Mapping[str, ArmState],
    store: Store,
    source: Source,
    share: Callable[[AnyChunk], object],
) -> None:
    """Read the chunks of past cycles again that the models of lines are made from.

    If the source no longer has one of them, the lines of the arm continue from its champion.
    """
    shared: dict[int, object] = {}
    for arm in arms.values():
        if not isinstance(arm, LinesArm):
            continue
        for cycle in arm.needed_chunks():
            then = read_record(store, arm.name, cycle).chunk
            if then.events and cycle not in shared:
                shared[cycle] = _chunk_again(source, arm.trainer, cycle, then, share)
        missing = [cycle for cycle in arm.needed_chunks() if shared.get(cycle, arm) is None]
        if missing:
            log.warning(
                "%s: the source no longer returns the events of cycle %d: all lines of %s "
                "continue from the champion's model", store.uri, missing[0], arm.name
            )  # fmt: skip
            arm.restart_from_champion()
        arm.recall(shared)


def _chunk_again(
    source: Source,
    trainer: Trainer,
    cycle: int,
    then: ChunkInfo,
    share: Callable[[AnyChunk], object],
) -> object | None:
    """The chunk of a past cycle, where trainers read it; None if it is not what it was."""
    try:
        events = source.events(cycle)
    except InputError:
        return None
    if events is None or not is_what_was_trained(events, source.spec, then):
        return None
    shared: object = prepare_chunk(events, source.spec, share, trainer.compile).shared
    return shared


def _new_arm(config: RunConfig, arm: ArmConfig, model: Any, store: Store) -> ArmState:
    if not isinstance(config.search.select, LineagesSelect):
        return ArmState(config, arm, model)
    kind = MeanArm if config.serve.mean_of > 1 else LinesArm
    return kind(config, arm, model, lambda file: read(store, file.path, file.size))
