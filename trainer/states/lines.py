"""Several states, the lines of one arm, by line number."""

from collections.abc import Callable, Iterable
from typing import Any

from trainer.instance import Buffers
from trainer.states.model import StateModel, copied
from trainer.states.own import State


class StateLines:
    """As `trainer.lines.Lines`, but that lines share nothing: each has all its arrays."""

    def __init__(self, trainer: Any, mu0: float) -> None:
        """No lines, and nothing seen. A new line starts with multipliers of `mu0`."""
        self.cycle = -1
        self._trainer, self._mu0 = trainer, mu0
        self._states: dict[int, State] = {}

    def __contains__(self, line: int) -> bool:
        """Whether the line is here."""
        return line in self._states

    def __len__(self) -> int:
        """How many lines are here."""
        return len(self._states)

    def add_new(self, line: int) -> None:
        """A line that has seen nothing; only before the first chunk."""
        if self.cycle >= 0:
            raise ValueError(f"line {line} cannot be new after cycle {self.cycle}")
        new = self._trainer.new_model()
        self._states[line] = new.gather(None, 0, mu0=self._mu0).tables

    def load(self, line: int, model: StateModel) -> None:
        """Add a line that was saved."""
        self._join(line, model.cycle)
        self._states[line] = model.state

    def take_over(self, other: "StateLines") -> None:
        """Add all lines of another set that has seen the same chunks."""
        for line, state in other._states.items():
            self._join(line, other.cycle)
            self._states[line] = state

    def copy(self, line: int, parent: int) -> None:
        """Replace a line by a copy of another."""
        self._states[line] = self._states[parent]  # no state is ever changed in place

    def rows_of(self, line: int) -> State:
        """A line's arrays, for `put`; not copied."""
        return self._states[line]

    def put(self, line: int, rows: State) -> None:
        """Add a line with these arrays, or replace it."""
        self._states[line] = rows

    def keep_only(self, lines: Iterable[int]) -> None:
        """Drop all other lines."""
        wanted = set(lines)
        self._states = {line: state for line, state in self._states.items() if line in wanted}

    def as_model(self, line: int) -> StateModel:
        """A line as a model, to be saved."""
        return StateModel(self._trainer, self._states[line], self.cycle)

    def see(
        self,
        chunk: Any,
        cycle: int,
        work: Callable[[int, State], bool],
        buffers: Buffers,
        *,
        score: bool = False,
    ) -> dict[int, float]:
        """Give each line a copy of its state, to be trained in place; kept where `work` says so."""
        scored = sorted(self._states) if score else ()
        served = {
            line: self._trainer.served_logloss(chunk, self._states[line], buffers)
            for line in scored
        }
        for line in sorted(self._states):
            state = copied(self._states[line])
            if work(line, state):
                self._states[line] = state
        self.cycle = cycle
        return served

    def _join(self, line: int, cycle: int) -> None:
        if not self._states:
            self.cycle = cycle
        elif cycle != self.cycle:
            raise ValueError(f"line {line} of cycle {cycle} does not fit those of {self.cycle}")
