"""What the orchestrator asks of a trainer: whatever it trains, chunks, rows and models are opaque.

`trainer.offset.Offset` is the first implementation. `trainer.states.trainer.StateTrainer` makes one
of any class with a few methods whose model is a dict of arrays (configs/trainers/README.md).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.rules import Rule
from trainer.features import FeatureSpec
from trainer.instance import Buffers, Trained
from trainer.lines import LineOptions
from trainer.setting import Setting
from trainer.tensorfile import Data
from trainer.trajectory import Trajectory


class AnyChunk(Protocol):
    """The events of one cycle, compiled once for all instances. It can be sent to processes."""

    @property
    def click(self) -> NDArray[np.uint8]:
        """The labels, 0 or 1."""
        ...

    @property
    def constant_logloss(self) -> float:
        """The log-loss of a model that knows the chunk's click rate and nothing else."""
        ...

    def __len__(self) -> int:
        """How many events there are."""
        ...


class AnyStart(Protocol):
    """What all instances of a cycle start from: arrays, which training copies."""

    @property
    def tables(self) -> Any:
        """The arrays."""
        ...


class AnyChanges(Protocol):
    """What a cycle changed in a model, for a delta."""

    def with_dropped(self, dropped: tuple[Any, ...]) -> Self:
        """The same with these keys dropped."""
        ...


class AnyModel(Protocol):
    """An arm's champion between cycles."""

    cycle: int
    config: Any
    """What it is made for. It has the features as `spec`."""

    @property
    def is_new(self) -> bool:
        """Whether it has seen nothing."""
        ...

    def gather(
        self, chunk: Any, cycle: int, *, mu0: float = 0.0, sums_kept: float = 1.0
    ) -> AnyStart:
        """What instances start from; the model does not change."""
        ...

    def found(self, chunk: Any, trained: Any) -> AnyStart:
        """Arrays that another process has gathered and trained, as a start for `scatter`."""
        ...

    def scatter(self, chunk: Any, cycle: int, before: Any, trained: Any) -> AnyChanges:
        """Take over what an instance has trained."""
        ...

    def expire(self, before_cycle: int) -> tuple[Any, ...]:
        """Drop what was last seen in this cycle or before; return its keys."""
        ...

    def set_mu(self, mu: float) -> None:
        """Reset all multipliers of a rule."""
        ...

    def norms(self) -> Sequence[tuple[NDArray[Any], NDArray[Any]]]:
        """The largest |entry| and the mean square of each vector, for each group of vectors."""
        ...


class AnyLines(Protocol):
    """The models of some of an arm's lines, by line number, as `trainer.lines.Lines` has them."""

    cycle: int

    def __contains__(self, line: int) -> bool: ...
    def __len__(self) -> int: ...
    def add_new(self, line: int) -> None:
        """A line that has seen nothing."""
        ...

    def load(self, line: int, model: Any) -> None:
        """Add a line that was saved."""
        ...

    def take_over(self, other: Any) -> None:
        """Add all lines of another set that has seen the same chunks."""
        ...

    def copy(self, line: int, parent: int) -> None:
        """Replace a line by a copy of another."""
        ...

    def rows_of(self, line: int) -> Any:
        """A line's arrays, for `put`."""
        ...

    def put(self, line: int, rows: Any) -> None:
        """Add a line with these arrays, or replace it."""
        ...

    def keep_only(self, lines: Iterable[int]) -> None:
        """Drop all other lines."""
        ...

    def as_model(self, line: int) -> Any:
        """A line as a model, to be saved."""
        ...

    def see(
        self,
        chunk: Any,
        cycle: int,
        work: Callable[[int, Any], bool],
        buffers: Buffers,
        *,
        score: bool = False,
        failed: Callable[[int, Exception], None] | None = None,
    ) -> dict[int, float]:
        """Give each line its start on a chunk, to be trained in place, and keep what `work` says
        should be kept. Returns each line's log-loss on the chunk before all this, if wanted. A line
        that cannot be scored skips the chunk, and `failed` gets the error."""
        ...


class Trainer(Protocol):
    """One kind of model, and how it is trained, scored and saved. It is sent to every process.

    Training is a pure function with the same bits in every process: chunk, start, setting and rule
    decide the result.
    """

    @property
    def spec(self) -> FeatureSpec:
        """The features of the events."""
        ...

    @property
    def tau(self) -> float:
        """An instance diverges at the first entry of this size."""
        ...

    @property
    def rho0(self) -> float:
        """The paper's heuristic bound for the length of its vectors."""
        ...

    def compile(self, table: pa.Table, *, labelled: bool = True) -> Any:
        """A chunk of checked events. Without labels every click is 0."""
        ...

    def warm_up(self, rules: Sequence[Rule], *, lines: bool = False) -> None:
        """Load or compile all that training with these rules needs, or training lines."""
        ...

    def train(
        self,
        chunk: Any,
        start: Any,
        setting: Setting,
        rule: Rule,
        *,
        instance: int = 0,
        buffers: Buffers | None = None,
        stop: Callable[[], bool] | None = None,
        in_place: bool = False,
    ) -> Trained:
        """Train one instance: its outcome and arrays. It ends as late if `stop` returns True."""
        ...

    def trace(self, chunk: Any, start: Any, setting: Setting, rule: Rule) -> Trajectory:
        """Train it again, and note how entries grew."""
        ...

    def served_logloss(self, chunk: Any, start: Any, buffers: Buffers) -> float:
        """The log-loss of a champion on a chunk, before training; InputError if it has none."""
        ...

    def copy_of(self, tables: Any) -> Any:
        """A copy of trained arrays, to be sent."""
        ...

    def score(
        self, model: Any, events: pa.Table, compiled: Callable[[Any], None] | None = None
    ) -> NDArray[np.float64]:
        """The predicted click probability of every event."""
        ...

    def new_model(self) -> Any:
        """A model that has seen nothing."""
        ...

    def save(self, model: Any, *, rows: bool = False) -> bytes:
        """A full file. With `rows`, lines can be loaded from it."""
        ...

    def save_delta(self, model: Any, changes: Any) -> bytes:
        """A file of what one cycle changed."""
        ...

    def load(self, data: Data, name: str) -> Any:
        """The model of a full file called `name`; `InputError` if it does not fit."""
        ...

    def apply_delta(self, model: Any, data: bytes, name: str) -> None:
        """Apply a delta: the model is then as after the delta's cycle."""
        ...

    def lines(self, options: LineOptions) -> Any:
        """A set of lines, without any."""
        ...
