"""What the cycle loop asks of a source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import pyarrow as pa

from orchestrator.validation.strict import Strict
from trainer.features import FeatureSpec


class SourceConfig(Strict):
    """A kind of source, as a config gives it."""

    own_features: ClassVar[FeatureSpec | None] = None
    """The features that the source brings along. None: `features` must be given."""


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
        """The events of this cycle (from 0 on), or None where the stream has ended."""
        ...
