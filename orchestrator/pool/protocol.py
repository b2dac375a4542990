"""What the cycle loop asks of a pool of trainers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from divergence.rules import Rule
from trainer.protocol import Trainer


class Pool(Protocol):
    """Trains the instances of one cycle at a time. A pool of lines takes and gives other types."""

    def wait_until_ready(self) -> None:
        """Return once instances can be trained."""
        ...

    def share(self, value: Any) -> Any:
        """Put a value where trainers read it; give the reference that goes into `ArmProgress`."""
        ...

    def start(self, arms: Sequence[Any], deadline: float | None = None) -> None:
        """Start to train a cycle: an `ArmProgress` (or `LinesProgress`) for each arm.

        `deadline` is a time of the monotonic clock: what is not finished by then is late.
        """
        ...

    def results(self) -> Iterator[Any]:
        """Each arm's `ArmResult` (or `LinesResult`), as soon as it is complete."""
        ...

    def close(self) -> None:
        """Stop all trainers."""
        ...


MakePool = Callable[[Trainer, Sequence[Rule]], Pool]
"""Makes the pool of a run: of this trainer, with the kernels of these rules compiled."""
