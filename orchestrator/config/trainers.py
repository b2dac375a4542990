"""The config of the trainer: OFFSET, one of two others in the tree, or a class of the user's own.

Another trainer than OFFSET has parameters of its own. Their ranges are here, by name; what is
left out is the class's. So a run folder has all of them, also where the class may not be loaded.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, model_validator

from divergence import own_code
from divergence.errors import InputError
from orchestrator.config.ranges import Choice, Interval, Range, read_range
from orchestrator.sources.python.config import Options, Reference, checked_code
from orchestrator.validation.errors import did_you_mean, mistake, one_of
from orchestrator.validation.extras import require_library
from orchestrator.validation.strict import Strict
from trainer.setting import PARAMETERS


class TrainerConfig(Strict):
    """What trains the instances."""

    kind: str

    def require(self) -> None:
        """InputError where the trainer cannot run here."""


class OffsetConfig(TrainerConfig):
    """OFFSET, the model of the paper: `model` has its shape, `search.ranges` its step sizes."""

    kind: Literal["offset"] = "offset"


class StateTrainerConfig(TrainerConfig):
    """A trainer whose model is a dict of arrays."""

    ranges: dict[str, Range] = Field(default_factory=dict)
    """The range of each of its parameters, by name. Default: the trainer's own."""

    @property
    def reference(self) -> str:
        """Its class, as module:Name."""
        raise NotImplementedError

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the class."""
        return self.model_dump(exclude={"kind", "ranges"})

    @property
    def own(self) -> bool:
        """Whether the class is the user's own."""
        return False

    def class_here(self) -> Any:
        """The class; None where it is the user's own and may not be loaded."""
        module, _, name = self.reference.partition(":")
        return getattr(import_module(module), name)

    @property
    def rules(self) -> tuple[str, ...] | None:
        """The rules that it can hold vectors with; None where that is not known here."""
        kind = self.class_here()
        return None if kind is None else tuple(getattr(kind, "rules", ("none",)))

    @model_validator(mode="after")
    def _complete_ranges(self) -> Self:
        kind = self.class_here()
        if kind is None:
            return self
        declared = _declared(kind, self.reference)
        for name in self.ranges:
            if name not in declared:
                known = ", ".join(declared)
                raise mistake(f"ranges: must name its parameters, {known}, but has {name}"
                              f"{did_you_mean(name, declared)}")  # fmt: skip
        self.__dict__["ranges"] = declared | self.ranges  # frozen for others
        return self


class TorchConfig(StateTrainerConfig):
    """Two towers of embeddings in PyTorch (the extra `holdfast[torch]`). Searched: step."""

    kind: Literal["torch"] = "torch"
    dim: int = Field(default=8, ge=1, le=4096)
    """Entries of a vector."""
    rows: int = Field(default=1 << 14, ge=1, le=1 << 26)
    """Rows of a table; a value's row is its hash."""
    batch: int = Field(default=64, ge=1, le=1 << 20)
    """Events of a batch."""
    optimizer: Literal["adagrad", "sgd"] = "adagrad"
    """The optimizer of torch.optim."""
    init_std: float = Field(default=0.15, ge=1e-30, le=100)
    """Standard deviation of the entries of new vectors."""

    @property
    def reference(self) -> str:
        """Its class."""
        return "trainer.states.torch_embeddings:TorchEmbeddings"

    def require(self) -> None:
        """InputError without PyTorch."""
        require_library("torch", "trainer.kind: torch")


class RiverConfig(StateTrainerConfig):
    """River's factorization machine (the extra `holdfast[river]`). Searched: step and l2."""

    kind: Literal["river"] = "river"
    factors: int = Field(default=4, ge=1, le=4096)
    """Entries of a latent vector."""
    rows: int = Field(default=1 << 14, ge=1, le=1 << 26)
    """Rows of weights; a value's row is its hash."""
    init_std: float = Field(default=0.1, ge=1e-30, le=100)
    """Standard deviation of the entries of new latent vectors."""

    @property
    def reference(self) -> str:
        """Its class."""
        return "trainer.states.river_fm:RiverFM"

    def require(self) -> None:
        """InputError without River."""
        require_library("river", "trainer.kind: river")


class PythonTrainerConfig(StateTrainerConfig):
    """A class of the user's own (configs/trainers/README.md)."""

    kind: Literal["python"] = "python"
    object: Reference
    """module:Class, in a folder that is given with --code."""
    options: Options = Field(default_factory=dict)
    """The arguments of the class. They are written to the run folder: no secrets."""
    code: str | None = None
    """A hash of the code, set when a run begins, so that a change is noticed."""

    @property
    def reference(self) -> str:
        """The class that the user has named."""
        return self.object

    @property
    def arguments(self) -> dict[str, Any]:
        """The options."""
        return dict(self.options)

    @property
    def own(self) -> bool:
        """It is."""
        return True

    def class_here(self) -> Any:
        """The class, if it may be loaded."""
        if not own_code.is_allowed(self.object):
            return None
        try:
            return own_code.load(self.object)
        except InputError as error:
            raise mistake(f"object: {error}") from None

    @model_validator(mode="after")
    def _same_code(self) -> Self:
        self.__dict__["code"] = checked_code(self.object, self.code)  # frozen for others
        return self

    def require(self) -> None:
        """InputError where the class may not run."""
        own_code.load(self.object)


TRAINERS: Mapping[str, type[TrainerConfig]] = {
    "offset": OffsetConfig, "torch": TorchConfig, "river": RiverConfig,
    "python": PythonTrainerConfig,
}  # fmt: skip
MEANT = {"pytorch": "torch", "own": "python", "vw": "python, and wrap it in a class of your own"}
AnyTrainer = Annotated[SerializeAsAny[TrainerConfig], one_of(TRAINERS, "kind", MEANT)]


def _declared(kind: Any, reference: str) -> dict[str, Interval | Choice]:
    """The parameters of a trainer's class, with their ranges."""
    given = getattr(kind, "parameters", None)
    if not isinstance(given, Mapping) or not given:
        raise mistake(f"{reference}: the class must have parameters = {{name: (low, high)}}")
    found = {}
    for name, span in given.items():
        if name in PARAMETERS:
            raise mistake(f"{reference}: a parameter cannot be called {name}, as one of OFFSET is")
        pair = isinstance(span, tuple | list) and len(span) == 2
        found[str(name)] = read_range({"low": float(span[0]), "high": float(span[1])}
                                      if pair else span)  # fmt: skip
    return found
