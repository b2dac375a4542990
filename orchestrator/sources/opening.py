"""From the `source` and `features` of a config to an open source."""

import threading
from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.sources.protocol import Source, SourceConfig
from trainer.features import Feature, FeatureSpec


def resolve_spec(source: SourceConfig, given: FeatureSpec | None) -> FeatureSpec:
    """The features of the stream: those given, or all that the source defines.

    From a source that defines its features, the given ones select some by name.
    """
    own = source.own_features
    if own is None:
        if given is None:
            raise InputError("must be given: this kind of source does not define its features")
        return given
    if given is None:
        return own
    if (given.label, given.timestamp) != (own.label, own.timestamp):
        raise InputError(f"label and timestamp must be {own.label} and {own.timestamp} here")
    user, ad = _selected(given.user, own.user, "user"), _selected(given.ad, own.ad, "ad")
    return FeatureSpec(user, ad, own.label, own.timestamp)


def open_source(
    config: SourceConfig,
    given: FeatureSpec | None,
    run_uri: str | None = None,
    stop: threading.Event | None = None,
) -> Source:
    """The stream of this config and the features it gives; see `SourceConfig.open`."""
    return config.open(resolve_spec(config, given), run_uri, stop)


def _selected(given: Sequence[Feature], own: Sequence[Feature], side: str) -> tuple[Feature, ...]:
    known = {feature.name: feature for feature in own}
    for feature in given:
        meant = known.get(feature.name)
        if meant is None:
            raise InputError(
                f"{side}: {feature.name!r} must be one of the source's features {', '.join(known)}"
            )
        if feature not in (meant, Feature(feature.name)):
            raise InputError(
                f"{side}: {feature.name!r} must be given by its name alone, or with "
                f"multi={meant.multi} and weights={meant.weights}"
            )
    return tuple(known[feature.name] for feature in given)
