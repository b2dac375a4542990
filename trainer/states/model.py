"""A model that is a dict of arrays, and its files. A delta has the rows that a cycle changed."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError
from trainer.modelfile import file_bytes, read_tensors, refusing
from trainer.states.own import State
from trainer.tensorfile import DTYPES, Data, Tensors

FORMAT, VERSION = "holdfast-state", 1


@dataclass(frozen=True)
class StateStart:
    """A state, as all instances of a cycle start from it."""

    tables: State


@dataclass(frozen=True)
class StateChanges:
    """The rows that a cycle changed, by array; None: all of it. Other arrays are as they were."""

    since: int
    rows: dict[str, NDArray[np.int64] | None] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def with_dropped(self, dropped: tuple[Any, ...]) -> "StateChanges":
        """The same: what a state drops, it drops itself."""
        return self


class StateModel:
    """A state, the cycle that it is of, and the trainer that made it."""

    def __init__(self, trainer: Any, state: State, cycle: int = -1) -> None:
        self.config, self.state, self.cycle = trainer, state, cycle

    @property
    def is_new(self) -> bool:
        """Whether it has seen nothing."""
        return self.cycle < 0

    def gather(
        self, chunk: Any, cycle: int, *, mu0: float = 0.0, sums_kept: float = 1.0
    ) -> StateStart:
        """The complete state; the multipliers of a new one are `mu0`."""
        if self.cycle < 0:
            return StateStart(with_multipliers(self.state, self.config.multipliers, mu0))
        return StateStart(self.state)

    def found(self, chunk: Any, trained: State) -> StateStart:
        """A state that another process has trained."""
        return StateStart(trained)

    def scatter(self, chunk: Any, cycle: int, before: StateStart, trained: State) -> StateChanges:
        """Take over a trained state."""
        changes = changes_between(self.state, trained, self.cycle)
        self.state, self.cycle = trained, cycle
        return changes

    def expire(self, before_cycle: int) -> tuple[Any, ...]:
        """Nothing: what a state drops, it drops itself."""
        return ()

    def set_mu(self, mu: float) -> None:
        """Reset all multipliers."""
        self.state = with_multipliers(self.state, self.config.multipliers, mu)

    def norms(self) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """The largest |entry| and the mean square of each row, over all watched arrays."""
        watched = [self.state[name] for name in self.config.watched_in(self.state)]
        rows = [as_rows(array) for array in watched if array.size] or [np.zeros((0, 1))]
        inf = np.concatenate([np.abs(one).max(axis=1, initial=0.0) for one in rows])
        return [(inf, np.concatenate([np.square(one).mean(axis=1) for one in rows]))]


def as_rows(array: NDArray[Any]) -> NDArray[Any]:
    """[rows, entries]: an array of one axis is a single row."""
    return array.reshape(1, -1) if array.ndim == 1 else _flat(array)


def _flat(array: NDArray[Any]) -> NDArray[Any]:
    """[first axis, all others], also where one of them is empty: -1 does not work there."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def with_multipliers(state: State, names: tuple[str, ...], mu: float) -> State:
    """The state with these arrays full of mu."""
    return state | {name: np.full_like(state[name], mu) for name in names}


def copied(state: State) -> State:
    """A copy that can be written."""
    return {name: np.array(array) for name, array in state.items()}


def check_state(state: Any, who: str) -> None:
    """InputError if it is not a dict of arrays that a file can hold."""
    if not isinstance(state, dict) or not state:
        raise InputError(f"{who}: a state must be a dict of arrays, but is {type(state).__name__}")
    for name, array in state.items():
        kind = getattr(array, "dtype", type(array).__name__)
        if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.ndim == 0:
            raise InputError(f"{who}: state[{name!r}] must be an array of one axis or more")
        if array.dtype.str not in DTYPES.values():
            known = ", ".join(str(np.dtype(one)) for one in DTYPES.values())
            raise InputError(f"{who}: state[{name!r}] must be of {known}, but is of {kind}")


def changes_between(old: State, new: State, since: int) -> StateChanges:
    """What differs, bit for bit. An array of which most rows differ is written as a whole."""
    rows: dict[str, NDArray[np.int64] | None] = {}
    for name, array in new.items():
        before = old.get(name)
        if before is None or (before.dtype, before.shape) != (array.dtype, array.shape):
            rows[name] = None
            continue
        at = np.flatnonzero((_bytes(array) != _bytes(before)).any(axis=1))
        if len(at):
            rows[name] = at if 2 * len(at) <= len(array) else None
    return StateChanges(since, rows, tuple(name for name in old if name not in new))


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(_flat(array)).view(np.uint8)


# -- files --------------------------------------------------------------------------------------


def save_state(model: StateModel, identity: dict[str, Any]) -> bytes:
    """A full file; `identity` says which trainer it is of."""
    return file_bytes(_contiguous(model.state), _manifest(model, identity, "full"))


def save_state_delta(model: StateModel, changes: StateChanges, identity: dict[str, Any]) -> bytes:
    """A file of what one cycle changed."""
    tensors: Tensors = {}
    for name, rows in changes.rows.items():
        if rows is None:
            tensors[f"whole.{name}"] = model.state[name]
        else:
            tensors |= {f"rows.{name}": model.state[name][rows], f"at.{name}": rows}
    manifest = _manifest(model, identity, "delta")
    more = {"since": changes.since, "removed": list(changes.removed)}
    return file_bytes(_contiguous(tensors), manifest | more)


def load_state(data: Data, name: str, trainer: Any, identity: dict[str, Any]) -> StateModel:
    """The model of a full file; InputError if another trainer, or one with other options, wrote
    it."""
    with refusing(name):
        manifest, tensors = read_tensors(data, name, "full", FORMAT)
        _check_identity(manifest, identity, name)
        return StateModel(trainer, copied(tensors), int(manifest["cycle"]))


def apply_state_delta(model: StateModel, data: bytes, name: str, identity: dict[str, Any]) -> None:
    """Apply a delta: the model is then as after the delta's cycle."""
    with refusing(name):
        manifest, tensors = read_tensors(data, name, "delta", FORMAT)
        _check_identity(manifest, identity, name)
        if manifest["since"] != model.cycle:
            raise InputError(
                f"{name} applies to a model of cycle {manifest['since']}, "
                f"but this model is of cycle {model.cycle}"
            )
        state = {k: array for k, array in model.state.items() if k not in manifest["removed"]}
        for key, array in tensors.items():
            part, _, of = key.partition(".")
            if part == "whole":
                state[of] = np.array(array)
            elif part == "rows":
                state[of] = np.array(state[of])
                state[of][tensors[f"at.{of}"]] = array
        model.state, model.cycle = state, int(manifest["cycle"])


def _contiguous(tensors: Tensors) -> Tensors:
    return {name: np.ascontiguousarray(array) for name, array in tensors.items()}


def _manifest(model: StateModel, identity: dict[str, Any], kind: str) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": kind,
        "cycle": model.cycle,
        "trainer": identity,
    }


def _check_identity(manifest: dict[str, Any], identity: dict[str, Any], name: str) -> None:
    found = manifest["trainer"]
    differing = [
        f"{key} {found.get(key)!r} where the config has {identity.get(key)!r}"
        for key in sorted({*found, *identity})
        if found.get(key) != identity.get(key)
    ]
    if differing:
        raise InputError(f"{name} does not fit the config: it has {'; '.join(differing)}")
