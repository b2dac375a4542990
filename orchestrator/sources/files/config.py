"""The source `files`: files that are already there, cut into cycles."""

import threading
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from orchestrator.sources.files.reading import Name, Reading
from orchestrator.sources.protocol import Source, SourceConfig
from orchestrator.validation.strict import Instant, Items, Strict
from trainer.features import FeatureSpec


class Cut(Strict):
    """How a stream is cut into cycles: by time or by count."""

    minutes: Annotated[float, Field(ge=1e-3, le=5_256_000)] | None = None
    """A cycle is the events of this many minutes; from 60 ms to ten years."""
    start: Instant | None = None
    """When cycle 0 starts; earlier events are skipped. Default: the first event."""
    events: Annotated[int, Field(ge=1)] | None = None
    """A cycle is this many rows, in the order of file names and lines."""

    @model_validator(mode="after")
    def _time_or_count(self) -> Self:
        if (self.minutes is None) == (self.events is None):
            raise ValueError("exactly one of minutes and events must be given")
        if self.start is not None and self.minutes is None:
            raise ValueError("start can only be given with minutes")
        return self


class FilesConfig(Reading, SourceConfig):
    """A set of files that is already there, cut into cycles."""

    records_cycles: ClassVar[bool] = True

    kind: Literal["files"] = "files"
    path: Name | Annotated[Items[Name], Field(min_length=1)]
    """File, folder, glob or fsspec URI, or several."""
    cut: Cut

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """The files as a stream; broken rows go to `quarantine`, else to `run_uri`/quarantine."""
        from orchestrator.sources.files.source import FileSource

        read_only = stop is not None and stop.is_set()
        return FileSource(self, spec, run_uri, read_only=read_only)

    def cycles_at_end(self, run_uri: str) -> int | None:
        """Known once all listed files were read."""
        from orchestrator.sources.files.listings import Listings

        listings = Listings(run_uri, self.options_for(run_uri)).read()
        if not listings or listings[-1].cycles is None:
            return None
        return listings[-1].first_cycle + listings[-1].cycles

    def options_for(self, run_uri: str) -> Mapping[str, Any]:
        """The storage options, if the run folder is on the store of the files."""
        from orchestrator.sources.files.files import options_for

        first = self.path if isinstance(self.path, str) else self.path[0]
        return options_for(run_uri, first, self.storage_options)

    @property
    def events_of_a_cycle(self) -> int | None:
        """Known where cycles are cut by events."""
        return self.cut.events

    @property
    def reading(self) -> Reading:
        """Its own."""
        return self
