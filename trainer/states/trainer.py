"""Makes a trainer that the orchestrator can drive of a small class (`trainer.states.own`).

It does all but the training itself: it copies states, measures the log-loss, finds divergence, ends
at the deadline, and writes models as safetensors.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence import own_code
from divergence.bound import rho0
from divergence.errors import InputError
from divergence.rules import Rule
from trainer.chunk import constant_logloss
from trainer.events import column
from trainer.features import FeatureSpec
from trainer.instance import Buffers, Trained
from trainer.lines import LineOptions
from trainer.outcome import Divergence, Outcome, Status
from trainer.scoring import checked_to_score, log_loss, sigmoid
from trainer.setting import Setting
from trainer.states.growth import EntryGrowth, largest_of
from trainer.states.lines import StateLines
from trainer.states.model import (
    StateChanges,
    StateModel,
    apply_state_delta,
    check_state,
    copied,
    load_state,
    save_state,
    save_state_delta,
)
from trainer.states.own import State
from trainer.states.recipe import Recipe
from trainer.tensorfile import Data
from trainer.trajectory import Trajectory

METHODS = ("compile", "start", "train", "logits")
CHECK_EVENTS = 1024
"""How many events may pass until entries are compared with tau: that takes a pass over them."""


@dataclass(frozen=True)
class StateChunk:
    """The clicks, and what the trainer has compiled."""

    click: NDArray[np.uint8]
    data: Any

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.click)

    @property
    def constant_logloss(self) -> float:
        """The log-loss of the clicks' own rate."""
        return constant_logloss(self.click)


class StateTrainer:
    """A trainer of the recipe's class, for events with these features."""

    def __init__(self, recipe: Recipe, spec: FeatureSpec, tau: float) -> None:
        """InputError, with the line of the user's code, where the class cannot be made."""
        self.recipe, self.spec, self.tau = recipe, spec, tau
        kind = recipe.kind()
        self.own: Any = self._blamed(lambda: kind(spec, recipe.seed, **recipe.options))
        self.parameters = tuple(kind.parameters)
        self.multipliers = tuple(getattr(kind, "multipliers", ()))
        self._takes_rule = bool(getattr(kind, "rules", ()))
        self._tried = False
        for name in METHODS:
            if not callable(getattr(self.own, name, None)):
                raise InputError(f"{recipe.reference}: the class must have a method {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        """As its recipe, and the sources of the user's own code."""
        recipe = self.recipe
        files = own_code.sources_of(recipe.reference) if recipe.own else {}
        return _received, (files, recipe, self.spec, self.tau)

    @property
    def rho0(self) -> float:
        """The bound for the length of its vectors."""
        return rho0(getattr(self.own, "width", 1))

    @property
    def identity(self) -> dict[str, Any]:
        """What a model file says of its trainer."""
        return {"object": self.recipe.reference, "options": self.recipe.options}

    # -- training -------------------------------------------------------------------------------

    def compile(self, table: pa.Table, *, labelled: bool = True) -> StateChunk:
        """A chunk of checked events. `logits` is tried on the first one, so that a mistake in it is
        found before anything is trained."""
        label = self.spec.label
        if not labelled:
            others = [name for name in table.column_names if name != label]
            table = table.select(others).append_column(label, pa.array(np.zeros(len(table), "u1")))
        click = column(table, label).to_numpy(zero_copy_only=False).astype(np.uint8)
        click.setflags(write=False)
        chunk = StateChunk(click, self._blamed(lambda: self.own.compile(table)))
        if labelled and not self._tried:
            self._logits(chunk, self.new_model().state)
            self._tried = True
        return chunk

    def warm_up(self, rules: Sequence[Rule], *, lines: bool = False) -> None:
        """Nothing: the class has loaded what it needs."""

    def train(
        self,
        chunk: StateChunk,
        start: State,
        setting: Setting,
        rule: Rule,
        *,
        instance: int = 0,
        buffers: Buffers | None = None,
        stop: Callable[[], bool] | None = None,
        in_place: bool = False,
        growth: EntryGrowth | None = None,
    ) -> Trained:
        """Train one instance on a copy of the state; `growth` is told how entries grow."""
        state, begin = start if in_place else copied(start), time.perf_counter()
        found, divergence, status = [np.zeros(0)], None, Status.RETAINED
        done = checked = 0
        with np.errstate(all="ignore"):  # overflow is not an error here: it is divergence
            blocks = self._blocks(chunk, state, setting, rule)
            for logits in blocks:
                found.append(logits)
                first, done = done, done + len(logits)
                if done > len(chunk):
                    break
                bad = np.flatnonzero(~np.isfinite(logits))
                if len(bad):
                    divergence = Divergence(first + int(bad[0]), "logit", "", float(logits[bad[0]]))
                elif done - checked >= CHECK_EVENTS:
                    checked, divergence = done, self._diverged(state, done)
                if growth is not None:
                    growth.note(done, self._watched(state), logits)
                if stop is not None and done < len(chunk) and stop():
                    status = Status.LATE
                if divergence is not None or status is Status.LATE:
                    break
            if divergence is None and status is Status.RETAINED:
                if done != len(chunk):
                    who = f"{self.recipe.reference}.train"
                    raise InputError(f"{who} gave {done} logits for {len(chunk)} events")
                divergence = self._diverged(state, done) or _not_finite(state, done)
            done = done if divergence is None else divergence.event + 1
            logits = np.concatenate(found)[:done]
            loss = log_loss(logits, chunk.click[:done]) if done else float("nan")
        status = status if divergence is None else Status.DIVERGED
        seconds = time.perf_counter() - begin
        outcome = Outcome(
            instance, setting, status, loss, done, seconds, divergence,
            _reason(status, divergence, done),
        )  # fmt: skip
        return Trained(outcome, state)

    def _blocks(
        self, chunk: StateChunk, state: State, setting: Setting, rule: Rule
    ) -> Iterator[NDArray[np.float64]]:
        values = {name: setting.value(name) for name in self.parameters}
        arguments = (chunk.data, state, values, *((rule,) if self._takes_rule else ()))
        blocks = self._blamed(lambda: iter(self.own.train(*arguments)))
        while (logits := self._blamed(lambda: _next_block(blocks))) is not None:
            yield logits

    def trace(self, chunk: StateChunk, start: State, setting: Setting, rule: Rule) -> Trajectory:
        """Train it again, and note the entries after each block."""
        growth = EntryGrowth(self.tau, chunk.click)
        growth.note(0, self._watched(start), np.zeros(0))
        outcome = self.train(chunk, start, setting, rule, growth=growth).outcome
        return Trajectory(outcome, tuple(growth.points), tuple(growth.crossings))

    def served_logloss(self, chunk: StateChunk, start: State, buffers: Buffers) -> float:
        """The log-loss of a state on a chunk, before training; InputError if it has none."""
        logits = self._logits(chunk, start)
        if not np.isfinite(logits).all():
            raise InputError(f"{self.recipe.reference}.logits gave logits that are not finite")
        return log_loss(logits, chunk.click)

    def copy_of(self, tables: State) -> State:
        """The state itself: after training, nobody changes it."""
        return tables

    def score(
        self, model: StateModel, events: pa.Table, compiled: Callable[[Any], None] | None = None
    ) -> NDArray[np.float64]:
        """The predicted click probability of every event."""
        table = checked_to_score(events, self.spec)
        if not len(table):
            return np.zeros(0)
        chunk = self.compile(table, labelled=False)
        return sigmoid(self._logits(chunk, model.state))

    def _logits(self, chunk: StateChunk, state: State) -> NDArray[np.float64]:
        """One logit for each event; InputError if the class gives anything else."""
        with np.errstate(all="ignore"):
            given = self._blamed(
                lambda: np.asarray(self.own.logits(chunk.data, state), np.float64).reshape(-1)
            )
        if len(given) != len(chunk):
            who = f"{self.recipe.reference}.logits"
            raise InputError(f"{who} gave {len(given)} logits for {len(chunk)} events")
        return np.asarray(given)

    # -- divergence -----------------------------------------------------------------------------

    def watched_in(self, state: Mapping[str, NDArray[Any]]) -> tuple[str, ...]:
        """The arrays that are compared with tau."""
        floats = [name for name, array in state.items() if array.dtype.kind == "f"]
        return tuple(getattr(self.own, "watched", floats))

    def _watched(self, state: State) -> State:
        self._check(state, "train")
        return {name: state[name] for name in self.watched_in(state)}

    def _diverged(self, state: State, done: int) -> Divergence | None:
        """The worst row of the watched arrays, if an entry is at tau or beyond."""
        worst = largest_of(self._watched(state))
        if worst is None or worst.norm < self.tau:
            return None
        return Divergence(done - 1, worst.array, worst.label, worst.norm)

    # -- models ---------------------------------------------------------------------------------

    def new_model(self) -> StateModel:
        """A model that has seen nothing."""
        state = self._blamed(self.own.start)
        self._check(state, "start")
        return StateModel(self, state)

    def _check(self, state: Any, method: str) -> None:
        """InputError if a state is not what files, rules and the watch over entries need."""
        who = f"{self.recipe.reference}.{method}"
        check_state(state, who)
        for key, names in (
            ("multipliers", self.multipliers),
            ("watched", self.watched_in(state)),
        ):
            for name in names:
                if name not in state:
                    raise InputError(f"{who}: the state has no {name!r}, which {key} names")

    def save(self, model: StateModel, *, rows: bool = False) -> bytes:
        """A full file."""
        return save_state(model, self.identity)

    def save_delta(self, model: StateModel, changes: StateChanges) -> bytes:
        """A file of what one cycle changed."""
        return save_state_delta(model, changes, self.identity)

    def load(self, data: Data, name: str) -> StateModel:
        """The model of a full file."""
        return load_state(data, name, self, self.identity)

    def apply_delta(self, model: StateModel, data: bytes, name: str) -> None:
        """Apply a delta."""
        apply_state_delta(model, data, name, self.identity)

    def lines(self, options: LineOptions) -> StateLines:
        """A set of lines, without any."""
        return StateLines(self, options.mu0)

    def _blamed(self, call: Callable[[], Any]) -> Any:
        """What the class gives. Its errors become InputErrors that name the line."""
        try:
            return call()
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self.recipe.reference}: {own_code.blame(error)}") from error


def _received(
    files: Mapping[str, own_code.SourceFile], recipe: Recipe, spec: FeatureSpec, tau: float
) -> StateTrainer:
    """A trainer in a process that may not have its code yet."""
    own_code.receive(files)
    return StateTrainer(recipe, spec, tau)


def _next_block(blocks: Iterator[Any]) -> NDArray[np.float64] | None:
    """A copy of the next logits: the class may use its array again. None at the end."""
    logits = next(blocks, None)
    return None if logits is None else np.array(logits, np.float64).reshape(-1)


def _not_finite(state: State, done: int) -> Divergence | None:
    """The first array with an entry that is not finite, watched or not."""
    for name, array in state.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return Divergence(done - 1, name, "", float("nan"))
    return None


def _reason(status: Status, divergence: Divergence | None, done: int) -> str:
    if divergence is not None:
        where = " ".join(filter(None, (divergence.feature, divergence.value)))
        return f"{where} reached {divergence.norm:.4g} at event {divergence.event}"
    return f"stopped after {done} events" if status is Status.LATE else ""
