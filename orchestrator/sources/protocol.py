"""What a source is: its config, the events of a cycle, and the stream that gives them."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import pyarrow as pa

from orchestrator.sources.files.reading import Reading
from orchestrator.validation.strict import Strict
from trainer.features import FeatureSpec


@dataclass(frozen=True, slots=True)
class Events:
    """The events of one cycle as a source gives them, in event order.

    `table` holds the label, the timestamp and the feature columns of the spec, checked; it may
    have no rows (a cycle in which nothing happened). `set_aside` counts the broken rows by
    reason. `origin` says where the events came from (a file, a span of rows) for the journal.
    """

    cycle: int
    table: pa.Table
    origin: str
    set_aside: Mapping[str, int] = field(default_factory=dict)


class Source(Protocol):
    """Gives the chunk of cycle t: the same bits for the same t, in any order, in any process."""

    @property
    def spec(self) -> FeatureSpec:
        """The features that the tables hold."""
        ...

    def events(self, cycle: int) -> Events | None:
        """The events of this cycle (from 0 on), or None after the end of the stream."""
        ...


class SourceConfig(Strict):
    """One kind of source. Its subclass adds `kind`, a Literal with that text as its default."""

    own_features: ClassVar[FeatureSpec | None] = None
    """The features that the source defines. None: the config must give `features`."""
    live: ClassVar[bool] = False
    """Whether events arrive during the run, so that its lag behind them means something."""
    records_cycles: ClassVar[bool] = False
    """Whether the source notes in the run folder which events were which cycle, and needs these
    notes to give a cycle again."""

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """The stream. Import what is slow to load here, not at the top of config.py.

        `spec` is what `resolve_spec` gave. `run_uri` is the run's folder or URI, where the source
        may write; None: it writes nothing. Setting `stop` ends any wait for more events.
        """
        raise NotImplementedError(f"{type(self).__name__}.open")

    @property
    def reading(self) -> Reading:
        """How `holdfast score` reads files of such events."""
        return Reading()
