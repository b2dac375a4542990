"""Read the models of a run from the files that its records name."""

from collections.abc import Sequence

from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import FileRef
from orchestrator.storage.store import Store, read
from trainer.features import FeatureSpec
from trainer.model import Model, ModelConfig
from trainer.modelfile import apply_delta, load_model


def model_config(config: RunConfig, spec: FeatureSpec) -> ModelConfig:
    """The shape, initialisation and seed of a run's models."""
    m = config.model
    return ModelConfig(spec, m.overlap, m.alone, m.init_std, config.seed)


def read_model(store: Store, files: Sequence[FileRef], config: ModelConfig) -> Model:
    """Read a full model and apply its deltas; an empty model if there are no files."""
    if not files:
        return Model(config)
    base, *deltas = files
    model = load_model(read(store, base.path, base.size), base.path, config)
    for delta in deltas:
        apply_delta(model, read(store, delta.path, delta.size), delta.path)
    return model
