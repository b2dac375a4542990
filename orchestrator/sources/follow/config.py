"""The source `follow`: a folder that keeps filling, each new file the next chunk."""

import threading
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from orchestrator.sources.files.reading import Name, Reading, Seconds
from orchestrator.sources.protocol import Source, SourceConfig
from trainer.features import FeatureSpec


class FollowConfig(Reading, SourceConfig):
    """A folder that keeps filling: each new file, in order of name, is the next chunk."""

    live: ClassVar[bool] = True
    records_cycles: ClassVar[bool] = True

    kind: Literal["follow"] = "follow"
    path: Name
    """Folder or URI."""
    poll_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """How often to look for the next file."""
    settle_s: Seconds = 2.0
    """A local file is read only after it has not changed for this long."""
    end_marker: Name = "_DONE"
    """A file of this name in the folder ends the stream, after all other files are read."""

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """The folder as a stream; `run_uri`/followed records which file was which cycle."""
        from orchestrator.sources.follow.source import FollowSource

        return FollowSource(self, spec, run_uri, stop)

    def cycles_at_end(self, run_uri: str) -> int | None:
        """Known once the end marker was found after all files."""
        from orchestrator.sources.follow.source import noted_end

        return noted_end(self, run_uri)

    @property
    def reading(self) -> Reading:
        """Its own."""
        return self
