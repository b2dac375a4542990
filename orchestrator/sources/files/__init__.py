"""Events from files: Parquet, CSV and JSON lines, local or on object storage."""

import threading

from orchestrator.sources.files.config import FilesConfig, FollowConfig
from orchestrator.sources.files.follow import FollowSource
from orchestrator.sources.files.source import FileSource
from trainer.features import FeatureSpec

__all__ = ["FileSource", "FilesConfig", "FollowConfig", "FollowSource", "open_source"]


def open_source(
    config: FilesConfig | FollowConfig,
    features: FeatureSpec,
    place: str | None = None,
    stop: threading.Event | None = None,
) -> FileSource | FollowSource:
    """The source that this config means.

    `place` is a folder or URI of the run: broken rows go to `place/quarantine` unless the config
    says otherwise, and a followed folder's files are written down in `place/followed`. Setting
    `stop` ends the wait for the next file of a followed folder, and with it the stream.
    """
    if isinstance(config, FollowConfig):
        return FollowSource(config, features, place, stop)
    return FileSource(config, features, place)
