"""What a trainer of your own is: a class with four methods. configs/trainers/README.md explains it.

Optional attributes of the class, beside `parameters`:

- `watched`: the arrays whose entries must stay below tau. Default: all arrays of floats.
- `rules`: the rules that `train` can hold vectors with; it then takes `rule` as a fourth argument.
  Default: none.
- `multipliers`: the arrays of a rule's multipliers, which start at its `mu0`. Default: none.
- `width`: the length of its vectors, for bounds that are multiples of rho0. Default: 1.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa
from numpy.typing import NDArray

State = dict[str, NDArray[Any]]
"""A model: arrays of numbers by name, each with at least one axis."""


class OwnTrainer(Protocol):
    """Made as `Class(spec, seed, **options)`, in the driver and in every trainer process.

    All methods are pure but for `train`, which changes the state that it is given: the same
    arguments give the same bits in every process.
    """

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What is searched: name -> (low, high), on a log scale. The first is the step size."""
        ...

    def compile(self, events: pa.Table) -> Any:
        """Checked events in the form that training needs, best as arrays. It is sent to processes.

        The label column is 0 in all rows where events are only scored.
        """
        ...

    def start(self) -> State:
        """The state of a model that has seen nothing."""
        ...

    def train(self, chunk: Any, state: State, setting: Mapping[str, float]) -> Iterator[Any]:
        """Train on the events in order, and change the state in place.

        After each block of events, yield their logits as they were before it was trained on.
        """
        ...

    def logits(self, chunk: Any, state: State) -> Any:
        """The logit of every event; the state does not change."""
        ...
