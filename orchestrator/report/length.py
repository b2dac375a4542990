"""N, the length of an ad's vector, from a run's config."""

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.sources.opening import resolve_spec
from trainer.geometry import shape_of


def vector_length(config: RunConfig) -> int | None:
    """N, or None if the features are not known."""
    try:
        spec = resolve_spec(config.source, feature_spec(config.features))
        return shape_of(spec, config.model.overlap, config.model.alone).ad
    except InputError:
        return None
