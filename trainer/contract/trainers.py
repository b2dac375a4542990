"""What must hold for every trainer (`trainer.protocol.Trainer`), whatever it trains."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from divergence.rules import Rule
from trainer.instance import Buffers, Trained
from trainer.lines import LineOptions
from trainer.outcome import Outcome, Status
from trainer.protocol import Trainer
from trainer.setting import Setting


@dataclass(frozen=True)
class TrainerCase:
    """A trainer, events of at least two cycles, and a setting that does not diverge on them."""

    trainer: Trainer
    tables: Sequence[pa.Table]
    setting: Setting
    rule: Rule
    options: LineOptions

    def train(self, model: Any, cycle: int, **more: Any) -> tuple[Any, Any, Trained]:
        """Chunk, start and result of a cycle that starts from a model."""
        chunk = self.trainer.compile(self.tables[cycle])
        start = model.gather(chunk, cycle, mu0=self.options.mu0)
        return (
            chunk,
            start,
            self.trainer.train(chunk, start.tables, self.setting, self.rule, **more),
        )

    def after(self, cycles: int) -> Any:
        """The model after so many cycles."""
        model = self.trainer.new_model()
        for cycle in range(cycles):
            chunk, start, trained = self.train(model, cycle)
            model.scatter(chunk, cycle, start, self.trainer.copy_of(trained.tables))
        return model

    def bits(self, model: Any) -> bytes:
        """A model as a file."""
        return self.trainer.save(model)


def repeats(case: TrainerCase) -> str:
    """Training is a pure function: the same bits twice, and the start stays as it was."""
    model = case.after(1)
    before = case.bits(model)
    found = []
    for _time in range(2):
        chunk, _, trained = case.train(model, 1)
        if case.bits(model) != before:
            return "training changed the model that it started from"
        copy = case.trainer.load(before, "copy")
        copy.scatter(chunk, 1, copy.gather(chunk, 1), case.trainer.copy_of(trained.tables))
        found.append((timeless(trained.outcome), case.bits(copy)))
    return "" if found[0] == found[1] else "training twice gave different bits"


def is_retained(case: TrainerCase) -> str:
    """The outcome has all events, a finite log-loss and no reason."""
    _, _, trained = case.train(case.trainer.new_model(), 0)
    one = trained.outcome
    whole = one.status is Status.RETAINED and one.events_done == len(case.tables[0])
    return "" if whole and one.logloss < 100 and not one.reason else f"not retained: {one}"


def scores_before_training(case: TrainerCase) -> str:
    """Scoring changes nothing, and gives one log-loss for a champion and for a line."""
    model = case.after(1)
    before, trainer, buffers = case.bits(model), case.trainer, Buffers()
    chunk = trainer.compile(case.tables[1])
    tables = model.gather(chunk, 1).tables
    served = trainer.served_logloss(chunk, tables, buffers)
    lines = trainer.lines(case.options)
    lines.load(0, trainer.load(trainer.save(model, rows=True), "line"))
    line = lines.see(chunk, 1, lambda *_: False, buffers, score=True)[0]
    if case.bits(model) != before:
        return "scoring changed the model"
    return "" if abs(served - line) < 1e-5 * served else f"served {served}, but as a line {line}"


def probabilities_fit(case: TrainerCase) -> str:
    """`score` needs no labels, and gives probabilities."""
    model, table = case.after(1), case.tables[1]
    label = case.trainer.spec.label
    chances = case.trainer.score(model, table.drop_columns([label]))
    good = len(chances) == len(table) and bool(((chances > 0) & (chances < 1)).all())
    return "" if good else "scores are not one probability for each event"


def files_round_trip(case: TrainerCase) -> str:
    """A full file gives the same bits; a full file and a delta those of the newer model."""
    model, trainer = case.after(1), case.trainer
    base = trainer.save(model)
    if case.bits(trainer.load(base, "full")) != base:
        return "a model that was loaded is saved with other bits"
    chunk, start, trained = case.train(model, 1)
    changes = model.scatter(chunk, 1, start, trainer.copy_of(trained.tables))
    again = trainer.load(base, "full")
    trainer.apply_delta(again, trainer.save_delta(model, changes), "delta")
    same = case.bits(trainer.load(case.bits(again), "again")) == case.bits(model)
    return "" if same else "base and delta do not give the new model"


def stops(case: TrainerCase) -> str:
    """It ends as late when it is asked to stop, unless it is done."""
    _, _, trained = case.train(case.trainer.new_model(), 0, stop=lambda: True)
    one = trained.outcome
    return "" if one.status is Status.LATE else f"asked to stop, it ended as {one.status}"


def lines_are_the_same(case: TrainerCase) -> str:
    """A line, a copy of it, one that was saved and a champion have the same bits."""
    lines, buffers = case.trainer.lines(case.options), Buffers()
    lines.add_new(0)

    def work(line: int, tables: Any) -> bool:
        chunk = case.trainer.compile(case.tables[cycle])
        trained = case.trainer.train(chunk, tables, case.setting, case.rule, in_place=True)
        return trained.outcome.status is Status.RETAINED

    for cycle in range(2):
        lines.see(case.trainer.compile(case.tables[cycle]), cycle, work, buffers)
        if cycle == 0:
            saved = case.trainer.save(lines.as_model(0), rows=True)
            lines.copy(1, 0)
            lines.load(2, case.trainer.load(saved, "line"))
            lines.put(3, lines.rows_of(0))
    champion = case.bits(case.after(2))
    odd = [line for line in range(4) if case.bits(lines.as_model(line)) != champion]
    return f"lines {odd} differ from a champion with the same setting" if odd else ""


CHECKS: tuple[Callable[[TrainerCase], str], ...] = (
    is_retained,
    repeats,
    scores_before_training,
    probabilities_fit,
    files_round_trip,
    stops,
    lines_are_the_same,
)
"""Each returns what is wrong, or an empty string."""


def timeless(outcome: Outcome) -> Outcome:
    """The outcome without the time that it took."""
    return replace(outcome, seconds=0.0)
