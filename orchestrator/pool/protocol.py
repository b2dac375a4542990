"""What the cycle loop asks of a pool of trainers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from divergence.rules import Rule
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.progress import ArmProgress
from trainer.instance import Job


class Pool(Protocol):
    """Trains the instances of one cycle at a time."""

    def wait_until_ready(self) -> None:
        """Return once instances can be trained."""
        ...

    def share(self, value: Any) -> Any:
        """Put a value where trainers read it; give the reference that goes into `ArmProgress`."""
        ...

    def start(self, arms: Sequence[ArmProgress], deadline: float | None = None) -> None:
        """Start to train a cycle: each arm's instances.

        `deadline` is a time of the monotonic clock: what is not finished by then is late.
        """
        ...

    def results(self) -> Iterator[ArmResult]:
        """Each arm's result of the cycle that was started, as soon as it is complete."""
        ...

    def close(self) -> None:
        """Stop all trainers."""
        ...


MakePool = Callable[[Job, Sequence[Rule]], Pool]
"""Makes the pool of a run: for this job, with the kernels of these rules compiled."""
