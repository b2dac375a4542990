"""An arm that starts from the champion of another run.

The champion is copied to the run folder, `started/<arm>.safetensors`, in the shape of this run's
models: the other run may go on or be deleted, and a replay of the first cycle still has its start.
"""

import json
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from divergence.errors import InputError
from orchestrator.config.rules import initial_mu
from orchestrator.config.schema import (
    ArmConfig,
    RunConfig,
    StartFromRun,
    config_hash,
    feature_spec,
    published_arm,
)
from orchestrator.journal.journal import newest_committed, read_record
from orchestrator.journal.models import champion_in, read_model, served_config
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.journal.run_folder import run_config
from orchestrator.search.sampler import SearchState, with_leader_steps
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store, read
from trainer.convert import converted
from trainer.mean_model import mean_model, member_of
from trainer.model import Model, ModelConfig
from trainer.modelfile import load_model, save_model

FOLDER = "started"
MAX_BYTES = 1 << 16
MAX_MODEL_BYTES = 1 << 28
"""Of a model whose size the note does not name, as those of earlier versions."""
SEARCH = TypeAdapter(SearchState)


def copy_start(
    store: Store, config: RunConfig, arm: ArmConfig, model: ModelConfig
) -> tuple[Model, SearchState]:
    """The model and the search that an arm starts with; copies them unless they are there."""
    names, note_path = store.names(FOLDER), _note_path(arm)
    if f"{arm.name}.json" in names:
        note = json.loads(read(store, note_path, MAX_BYTES))
        if note["config_hash"] != config_hash(config):  # of a start that failed
            store.delete(note_path)
            names.remove(f"{arm.name}.json")
    if f"{arm.name}.json" not in names:
        if f"{arm.name}.safetensors" in names:
            store.delete(_model_path(arm))
        note = _copied(store, config, arm, model)
        store.create(note_path, json.dumps(note).encode())
    return started_model(store, arm, model), SEARCH.validate_python(note["search"])


def _copied(store: Store, config: RunConfig, arm: ArmConfig, model: ModelConfig) -> dict[str, Any]:
    """Copy the model that an arm starts with; returns the note about it."""
    start = arm.start_from
    assert isinstance(start, StartFromRun), "only such an arm is started here"
    try:
        record, fresh, changes = _champion(start, arm, model)
        _check_size(fresh, config.model.tau)
        if config.serve.mean_of > 1:  # as it is in the mean of lines that all start from it
            wide = mean_model([fresh] * config.serve.mean_of)
            fresh = member_of(wide, 0, model, fresh.bias, initial_mu(arm.rule))
    except InputError as error:
        raise InputError(f"{arm.name}: cannot start from {start.run}: {error}") from None
    data = save_model(fresh)
    store.create(_model_path(arm), data)
    search = with_leader_steps(SearchState(), record.search)
    return {
        "config_hash": config_hash(config),
        "run": start.run,
        "arm": record.arm,
        "cycle": record.cycle,
        "changes": changes,
        "search": SEARCH.dump_python(search, mode="json"),
        "size": len(data),
    }


def start_texts(store: Store, config: RunConfig) -> Iterator[str]:
    """What each arm that was started from another run has from there, in words."""
    for arm in config.arms:
        if isinstance(arm.start_from, StartFromRun):
            note = json.loads(read(store, _note_path(arm), MAX_BYTES))
            yield (
                f"{arm.name} starts from {note['run']}, the champion of {note['arm']} after cycle "
                f"{note['cycle']}: {note.get('changes', 'as it was')}"
            )


def started_model(store: Store, arm: ArmConfig, model: ModelConfig) -> Model:
    """The model that an arm was started with."""
    path = _model_path(arm)
    try:
        note = json.loads(read(store, _note_path(arm), MAX_BYTES))
        return load_model(read(store, path, note.get("size", MAX_MODEL_BYTES)), path, model)
    except FileNotFoundError:
        raise InputError(f"{store.uri}/{path}: missing") from None


def _champion(
    start: StartFromRun, arm: ArmConfig, model: ModelConfig
) -> tuple[CycleRecord, Model, str]:
    """The record and the champion to start from, in the shape of this run's models, and what is
    different."""
    store = open_store(start.run)
    config = run_config(store)
    arms = {a.name: a for a in config.arms}
    name = start.arm or published_arm(config)
    if name not in arms:
        raise InputError(f"it has no arm {name!r}; its arms are {', '.join(arms)}")
    record = _record(store, config, name, start.cycle)
    if not record.model:
        raise InputError(f"{name} has no champion after cycle {record.cycle}")
    spec = resolve_spec(config.source, feature_spec(config.features))
    try:
        served = read_model(store, record.model, served_config(config, spec))
    except FileNotFoundError:
        text = f"the champion of cycle {record.cycle} is not kept any more (see retention)"
        raise InputError(text) from None
    found = champion_in(served, record, config, arms[name])
    made, changes = converted(found, model), [_kept(found, model)]
    if arms[name].rule.name != arm.rule.name:
        made.set_mu(initial_mu(arm.rule))  # the other's mean nothing to this rule
        changes.append(f"rule {arms[name].rule.name} -> {arm.rule.name}")
    return record, made, "; ".join(changes)


def _kept(found: Model, model: ModelConfig) -> str:
    """What of a champion stays in a model of this config."""
    old, new = ([f.name for f in c.spec.features] for c in (found.config, model))
    texts = [f"keeps the vectors of {', '.join(name for name in old if name in new)}"]
    for what, names, others in (("drops", old, new), ("new", new, old)):
        only = [name for name in names if name not in others]
        texts += [f"{what}: {', '.join(only)}"] if only else []
    for key in ("overlap", "alone"):
        before, after = getattr(found.config, key), getattr(model, key)
        texts += [f"{key} {before} -> {after}"] if before != after else []
    return "; ".join(texts)


def _record(store: Store, config: RunConfig, arm: str, cycle: int | None) -> CycleRecord:
    if cycle is None:
        found = newest_committed(store, {a.name: a.first_cycle for a in config.arms}).records
        if arm not in found:
            raise InputError(f"{arm} has no committed cycle")
        return found[arm]
    try:
        return read_record(store, arm, cycle)
    except CorruptError as error:
        raise InputError(str(error)) from None


def _check_size(model: Model, tau: float) -> None:
    largest = max(float(side.inf.max(initial=0.0)) for side in (model.user, model.ad))
    if largest >= tau:
        raise InputError(f"its largest entry must be below model.tau {tau:g}, but is {largest:g}")


def _note_path(arm: ArmConfig) -> str:
    return f"{FOLDER}/{arm.name}.json"


def _model_path(arm: ArmConfig) -> str:
    return f"{FOLDER}/{arm.name}.safetensors"
