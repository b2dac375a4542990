"""From the `source` and `features` of a config to an open source."""

import threading
from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.sources.files.config import FilesConfig, FollowConfig
from orchestrator.sources.protocol import Source, SourceConfig
from orchestrator.sources.simulator.config import SimulatorConfig
from trainer.features import Feature, FeatureSpec


def resolve_spec(source: SourceConfig, given: FeatureSpec | None) -> FeatureSpec:
    """The features of the stream: those given, or all that the source brings along.

    Of a source with features of its own, the given ones are a choice by name.
    """
    own = source.own_features
    if own is None:
        if given is None:
            raise InputError("must be given: this kind of source has no features of its own")
        return given
    if given is None:
        return own
    if (given.label, given.timestamp) != (own.label, own.timestamp):
        raise InputError(f"label and timestamp must be {own.label} and {own.timestamp} here")
    user, ad = _chosen(given.user, own.user, "user"), _chosen(given.ad, own.ad, "ad")
    return FeatureSpec(user, ad, own.label, own.timestamp)


def open_source(
    config: SourceConfig,
    given: FeatureSpec | None,
    place: str | None = None,
    stop: threading.Event | None = None,
) -> Source:
    """The source that this config means.

    `place` is a folder or URI of the run: broken rows go to `place/quarantine` unless the config
    says otherwise, and a followed folder's files are written down in `place/followed`. Setting
    `stop` ends the wait for the next file of a followed folder, and with it the stream.
    """
    spec = resolve_spec(config, given)
    if isinstance(config, SimulatorConfig):
        from orchestrator.sources.simulator.source import Simulator  # compiles on import

        return Simulator(config, spec)
    if isinstance(config, FollowConfig):
        from orchestrator.sources.files.follow import FollowSource

        return FollowSource(config, spec, place, stop)
    if isinstance(config, FilesConfig):
        from orchestrator.sources.files.source import FileSource

        return FileSource(config, spec, place)
    raise TypeError(f"no source is known for {type(config).__name__}")


def _chosen(given: Sequence[Feature], own: Sequence[Feature], side: str) -> tuple[Feature, ...]:
    known = {feature.name: feature for feature in own}
    for feature in given:
        meant = known.get(feature.name)
        if meant is None:
            raise InputError(
                f"{side}: {feature.name!r} must be one of the source's own {', '.join(known)}"
            )
        if feature not in (meant, Feature(feature.name)):
            raise InputError(
                f"{side}: {feature.name!r} must be given by its name alone, or with "
                f"multi={meant.multi} and weights={meant.weights}"
            )
    return tuple(known[feature.name] for feature in given)
