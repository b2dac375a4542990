"""What driver and trainer processes send each other. No Ray in here."""

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from divergence.rules import Rule
from trainer.lines import LineOptions
from trainer.outcome import Outcome
from trainer.pickling import travels_fast
from trainer.setting import Setting

if TYPE_CHECKING:  # loads the config, which trainer processes never need
    from orchestrator.search.lineages import Judgement


@travels_fast
@dataclass(frozen=True, slots=True)
class Task:
    """One instance to train.

    `tries` counts how often it was started and lost. An instance that was lost together with
    others is tried again alone, so that the next loss is its own.
    """

    instance: int
    setting: Setting
    rule: Rule
    tries: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """One call: instances of one arm, to train within `budget_s` seconds of its arrival.

    `number` is its place among the batches of its actor. `serve` also asks for the log-loss of
    the working set before training.
    """

    cycle: int
    arm: str
    tasks: tuple[Task, ...]
    budget_s: float
    number: int = 0
    serve: bool = False


@dataclass(frozen=True, slots=True)
class BatchReply:
    """The outcomes of a batch, and the errors of instances that raised.

    Instances that did not fit into the budget are late or missing.
    """

    outcomes: tuple[Outcome, ...]
    raised: dict[int, str]
    served: float | None = None
    cores: int | None = None
    """How many trainers are ready now, if this is a dispatcher's."""
    lost: tuple[str, ...] = ()
    """Why trainers were lost since its last reply, if this is a dispatcher's."""


@dataclass(frozen=True, slots=True)
class Step:
    """A chunk that a line is trained on again: with which setting and rule; None: it skipped it."""

    cycle: int
    setting: Setting | None
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """How an actor makes a line's model that no actor has: from a base, chunk by chunk."""

    line: int
    since: int
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LineBatch(Batch):
    """One call: the lines of one arm that an actor has, to score and train on a chunk.

    `since` is the cycle that the models are of. `copies` are (line, parent) within the actor.
    The models of `arriving` lines come with the call, and `rebuilds` are made first.
    """

    options: LineOptions | None = None
    since: int = -1
    served: tuple[int, ...] = ()
    """The lines whose trained rows are returned, those of them that are here."""
    due: frozenset[int] = frozenset()
    """The lines of which a snapshot is returned."""
    copies: tuple[tuple[int, int], ...] = ()
    arriving: tuple[int, ...] = ()
    rebuilds: tuple[Rebuild, ...] = ()


@dataclass(frozen=True, slots=True)
class LineSnapshot:
    """A line's model as a file, and its checksum."""

    data: NDArray[np.uint8]
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> "LineSnapshot":
        """A snapshot of these bytes."""
        return cls(np.frombuffer(data, np.uint8), hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class LineReply:
    """Outcomes and errors as in a `BatchReply`, the served log-loss of each line that was scored,
    the trained rows of lines that are served, and snapshots."""

    outcomes: tuple[Outcome, ...]
    raised: dict[int, str]
    served: dict[int, float]
    rows: dict[int, Any]
    snapshots: dict[int, LineSnapshot]


@dataclass(frozen=True, slots=True)
class LinesResult:
    """An arm's cycle: outcomes by line number, what it changed, and what served lines have learnt.

    `rows` are the trained rows of the lines that were served before, `models` the complete models
    of those that were not, and are now.
    """

    arm: str
    outcomes: tuple[Outcome, ...]
    winner: int | None
    served: float | None
    """Of what the cycle started with: the champion, or the mean of its members."""
    each_served: dict[int, float]
    judgement: "Judgement"
    rows: dict[int, Any]
    models: dict[int, LineSnapshot]
    snapshots: dict[int, LineSnapshot]


@dataclass(frozen=True, slots=True)
class ArmResult:
    """An arm's cycle: every outcome by instance number, and the winner's rows.

    `shared` is where trainers can read these rows, if they can.
    """

    arm: str
    outcomes: tuple[Outcome, ...]
    winner: int | None
    tables: Any
    served: float | None
    shared: Any = None
