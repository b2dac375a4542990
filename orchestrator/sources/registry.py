"""The kinds of source that a config may name."""

from typing import Annotated

from pydantic import SerializeAsAny

from orchestrator.sources.files.config import FilesConfig, FollowConfig
from orchestrator.sources.protocol import SourceConfig
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.validation.errors import one_of

SOURCES: dict[str, type[SourceConfig]] = {
    "simulator": SimulatorConfig,
    "files": FilesConfig,
    "follow": FollowConfig,
}
"""The config of each kind, by the text of its `kind`."""

AnySource = Annotated[SerializeAsAny[SourceConfig], one_of(SOURCES, "kind")]
