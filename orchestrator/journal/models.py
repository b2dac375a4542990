"""Read the models of a run from the files that its records name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from orchestrator.config.rules import initial_mu
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.trainers import StateTrainerConfig
from orchestrator.journal.record import CycleRecord, FileRef, members_of
from orchestrator.storage.store import Store, read
from trainer.features import FeatureSpec
from trainer.mean_model import mean_config, member_of
from trainer.model import Model, ModelConfig
from trainer.offset import Offset
from trainer.protocol import Trainer
from trainer.states.recipe import Recipe
from trainer.states.trainer import StateTrainer


def model_config(config: RunConfig, spec: FeatureSpec) -> ModelConfig:
    """The shape, initialisation and seed of the models that a run trains."""
    m = config.model
    return ModelConfig(spec, m.overlap, m.alone, m.init_std, config.seed)


def trainer_of(config: RunConfig, spec: FeatureSpec) -> Trainer:
    """The trainer of a run."""
    other = config.trainer
    if isinstance(other, StateTrainerConfig):
        other.require()
        recipe = Recipe(other.reference, other.arguments, config.seed, other.own)
        return StateTrainer(recipe, spec, config.model.tau)
    return Offset(model_config(config, spec), config.model.tau)


def served_trainer(config: RunConfig, spec: FeatureSpec) -> Trainer:
    """The trainer in whose files the served models are: wider ones for a mean of lines."""
    if config.serve.mean_of == 1:
        return trainer_of(config, spec)
    return Offset(served_config(config, spec), config.model.tau)


def served_config(config: RunConfig, spec: FeatureSpec) -> ModelConfig:
    """The same of the models that it serves, which its records name."""
    trained, count = model_config(config, spec), config.serve.mean_of
    return trained if count == 1 else mean_config(trained, count)


def champion_in(model: Model, record: CycleRecord, config: RunConfig, arm: ArmConfig) -> Model:
    """The champion's own model in one that the arm serves after a record."""
    if config.serve.mean_of == 1:
        return model
    trained, lines = model_config(config, model.config.spec), record.lineages
    seat, bias = 0, model.bias  # all members are the same while there are no lines
    if lines is not None and lines.state.champion is not None:
        seat = lines.state.members.index(lines.state.champion)
        bias = np.array(lines.biases[seat])
    return member_of(model, seat, trained, bias, initial_mu(arm.rule))


def served_text(record: CycleRecord, config: RunConfig, chosen: str | None) -> str:
    """What an arm serves after a record, in words; also the other arms if none was chosen."""
    members = ", ".join(map(str, members_of(record)))
    what = f"mean of lines {members}" if members else "champion"
    others = [arm.name for arm in config.arms if chosen is None and arm.name != record.arm]
    more = f" (other arms: {', '.join(others)}; --arm)" if others else ""
    return f"the {what} of {record.arm} after cycle {record.cycle}{more}"


def read_model(store: Store, files: Sequence[FileRef], config: ModelConfig) -> Model:
    """OFFSET's model: a full one with its deltas; an empty model if there are no files."""
    model: Model = read_trained(store, files, Offset(config))
    return model


def read_trained(store: Store, files: Sequence[FileRef], trainer: Trainer) -> Any:
    """The same of any trainer."""
    if not files:
        return trainer.new_model()
    base, *deltas = files
    model = trainer.load(read(store, base.path, base.size), base.path)
    for delta in deltas:
        trainer.apply_delta(model, read(store, delta.path, delta.size), delta.path)
    return model
