"""What a source is: its config, the events of a cycle, and the stream that gives them."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orchestrator.sources.files.reading import Reading
from orchestrator.validation.strict import Strict
from trainer.features import FeatureSpec

LATE_ROW, LATE_FILE = LATE_REASONS = "late row", "late file"
"""Why a good row is set aside: it is older than what was trained."""


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
    truth: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """Each event's true click probability, where the source knows it: never for training."""


class Source(Protocol):
    """Gives the chunk of cycle t: the same bits for the same t, in any order, in any process."""

    @property
    def spec(self) -> FeatureSpec:
        """The features that the tables hold."""
        ...

    def events(self, cycle: int) -> Events | None:
        """The events of this cycle (from 0 on), or None after the end of the stream."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """A source that may find more events than there were when the run stopped."""

    def resume(self, cycle: int, check: Callable[[Events], None]) -> None:
        """The run resumes at this cycle: what was added since it stopped is in the stream now.

        `check` raises if the events of the cycle before are not what was trained. It is called
        first, unless nothing depends on them any more.
        """
        ...


class SourceConfig(Strict, ABC):
    """One kind of source. Its subclass adds `kind`, a Literal with that text as its default."""

    own_features: ClassVar[FeatureSpec | None] = None
    """The features that the source defines. None: the config must give `features`."""
    live: ClassVar[bool] = False
    """Whether events arrive during the run, so that its lag behind them means something."""
    records_cycles: ClassVar[bool] = False
    """Whether the source notes in the run folder which events were which cycle, and needs these
    notes to give a cycle again."""

    @abstractmethod
    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        """The stream. Import what is slow to load here, not at the top of config.py.

        `spec` is what `resolve_spec` gave. `run_uri` is the run's folder or URI, where the source
        may write; None: it writes nothing. Setting `stop` ends any wait for more events; where it
        is set already, only past cycles will be asked for, and nothing must be written.
        """

    def cycles_at_end(self, run_uri: str) -> int | None:
        """How many cycles the stream had when it ended, as noted in the run folder; None: it has
        not ended, or nothing was noted."""
        return None

    def require_code(self) -> None:
        """InputError where the source needs code of the user's own that may not run."""
        return

    @property
    def events_of_a_cycle(self) -> int | None:
        """About how many events a cycle has; None: the config does not say."""
        return None

    @property
    def reading(self) -> Reading:
        """How `holdfast score` reads files of such events."""
        return Reading()
