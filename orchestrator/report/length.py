"""The lengths of a model's vectors, from a run's config."""

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.sources.opening import resolve_spec
from trainer.geometry import Shape, shape_of


def model_shape(config: RunConfig) -> Shape | None:
    """The shape of the run's models, or None if the features are not known, or it is not OFFSET."""
    if config.trainer.kind != "offset":
        return None
    try:
        spec = resolve_spec(config.source, feature_spec(config.features))
        return shape_of(spec, config.model.overlap, config.model.alone)
    except InputError:
        return None


def vector_length(config: RunConfig) -> int | None:
    """N, the length of an ad's vector, or None if the features are not known."""
    shape = model_shape(config)
    return None if shape is None else shape.ad
