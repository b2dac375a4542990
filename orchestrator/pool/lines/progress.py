"""One arm's lines in one cycle: which wait, which are done, who is champion. No Ray in here."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.pool.messages import (
    BatchReply,
    LineBatch,
    LineReply,
    LineSnapshot,
    LinesResult,
    Rebuild,
    Task,
)
from orchestrator.pool.progress import ArmProgress, Pace
from orchestrator.search.lineages import Judgement, Lineages
from trainer.lines import LineOptions
from trainer.outcome import Outcome, Status


@dataclass(frozen=True)
class LinesPlan:
    """What an arm's lines do in a cycle. `chunk` and what `recipe` gives are passed on unseen."""

    name: str
    cycle: int
    tasks: Sequence[Task]
    events: int
    chunk: Any
    options: LineOptions
    since: int
    """The cycle that the models are of."""
    state: Lineages
    due: frozenset[int]
    """The lines of which a snapshot is due."""
    parents: Mapping[int, int]
    """The lines that are copied before they train, and from which line."""
    recipe: Callable[[int], tuple[Rebuild, Any, Mapping[int, Any]]]
    """How to make a line's model again: the steps, the base, and the chunks by cycle."""
    judge: Callable[[Sequence[Outcome], Mapping[int, float]], Judgement]
    served: Callable[[Mapping[int, float]], float | None]
    """What was served on the chunk, where this is what each line would have."""


class LinesProgress(ArmProgress):
    """What is known of the lines' cycle."""

    def __init__(self, plan: LinesPlan, pace: Pace) -> None:
        super().__init__(
            plan.name,
            plan.cycle,
            plan.tasks,
            plan.events,
            pace,
            chunk=plan.chunk,
            start=None,
            serve=plan.state.champion is not None,
        )
        self.plan = plan
        self.served: dict[int, float] = {}
        self._rows: dict[int, Any] = {}
        self._snapshots: dict[int, LineSnapshot] = {}
        self._judgement: Judgement | None = None

    @property
    def winner(self) -> int | None:
        """The champion, if it has trained in this cycle."""
        champion = self.judgement.state.champion
        retained = champion is not None and self._done[champion].status is Status.RETAINED
        return champion if retained else None

    @property
    def judgement(self) -> Judgement:
        """What the cycle has changed, once every line has an outcome."""
        if self._judgement is None:
            self._judgement = self.plan.judge(tuple(self._done.values()), self.served)
        return self._judgement

    @property
    def newly_served(self) -> dict[int, int]:
        """The lines that are served and were not before, and which line has the model of each."""
        copied = {one.line: one.parent for one in self.judgement.replaced}
        before = self.plan.state.served
        return {
            line: copied.get(line, line)
            for line in self.judgement.state.served
            if line not in before or line in copied
        }

    def line_batch(
        self,
        lines: Iterable[int],
        budget_s: float,
        *,
        copies: Sequence[tuple[int, int]] = (),
        arriving: Mapping[int, Any] | None = None,
        rebuilds: Iterable[int] = (),
    ) -> tuple[LineBatch, list[Any]]:
        """A call for these lines, and the data that goes with it."""
        arriving = arriving or {}
        tasks = tuple(self._tasks[line] for line in sorted(lines))
        self._wait_no_longer({task.instance for task in tasks})
        self._out += 1
        recipes = [self.plan.recipe(line) for line in sorted(rebuilds)]
        chunks = {cycle: chunk for *_, used in recipes for cycle, chunk in used.items()}
        batch = LineBatch(
            self.cycle,
            self.name,
            tasks,
            budget_s,
            serve=self.plan.state.champion is not None,
            options=self.plan.options,
            since=self.plan.since,
            served=self.plan.state.served,
            due=self.plan.due,
            copies=tuple(copies),
            arriving=tuple(arriving),
            rebuilds=tuple(recipe for recipe, *_ in recipes),
        )
        bases = [base for _, base, _ in recipes]
        return batch, [*arriving.values(), *bases, *(chunks[cycle] for cycle in sorted(chunks))]

    def send_all(self) -> None:
        """All lines are sent now, in calls of some each."""
        self.waiting.clear()

    def _wait_no_longer(self, lines: set[int]) -> None:
        if self.waiting:  # the first calls of a cycle are many, and leave none
            rest = (task for task in self.waiting if task.instance not in lines)
            self.waiting = type(self.waiting)(rest)

    def record_lines(self, batch: LineBatch, reply: LineReply, holder: object, tries: int) -> None:
        """Record a reply."""
        self.record(batch, BatchReply(reply.outcomes, reply.raised), holder, tries)
        self.served |= reply.served
        self._snapshots |= reply.snapshots
        self._rows |= reply.rows

    def lose_line(self, line: int, tries: int, again: bool) -> None:
        """A line's model is lost: train it again, or fail it where there is no time."""
        self._rows.pop(line, None)
        self._judgement = None
        self.lose_rows(line, tries, again)

    def lines_result(self, models: dict[int, LineSnapshot]) -> LinesResult:
        """The result; `models` are those of the newly served lines."""
        return LinesResult(
            self.name,
            tuple(self._done[i] for i in sorted(self._done)),
            self.winner,
            self.plan.served(self.served),
            self.served,
            self.judgement,
            self._rows,
            models,
            self._snapshots,
        )
