"""Lines: rank them, choose the champion, replace the worst. Pure functions.

A line is one setting with its own model from cycle to cycle. At each chunk every line is scored
before it trains: that is what its users would have got. Everything that the search has learnt is a
`Lineages`, which the journal stores.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

import numpy as np

from orchestrator.config.ranges import narrowed
from orchestrator.config.schema import LineagesSelect
from orchestrator.config.space import Space
from orchestrator.search.sampler import (
    SHRINK,
    Draws,
    fitted_to,
    setting_at,
    with_shorter_steps,
)
from trainer.outcome import Outcome, Status
from trainer.setting import PARAMETERS, Setting

WINDOW = 16
"""How many of the last chunks two lines are compared on."""
MIN_CHUNKS = 4
"""How many of them are needed at least, and twice as many to replace a line."""
ERRORS = 1.0
"""By how many standard errors a challenger must be better than the champion. That is no proof, but
a wrong change costs little and a late one much. With 16 fixed lines on five development streams
(one seed), mean regret is 0.18 points of gain; with no test 0.23, with two errors 0.26, and with a
test by betting that is valid at any time (5%) 0.39."""
CERTAIN = 2.0
"""By how many standard errors a line must be worse than the champion to be replaced. Lines that are
as good stay, so that there are always different ones. A member of a served mean leaves by the same
measure: on four development streams (two seeds) it serves as well as with one error (the mean of
four gains 0.38 points over the champion line either way, that of eight 0.50 and 0.48) and changes
less often: 8 members in 72 cycles instead of 12 (of eight: 14 instead of 19)."""
WORST = 1.0
"""The most that one chunk can count against a line, relative to a constant CTR."""
CHOICES = 2
"""The draws for the choice of a parent, before those for the setting."""


@dataclass(frozen=True, slots=True)
class LineState:
    """A line between two cycles.

    `excess` is the served log-loss less that of a constant CTR, on the last chunks, newest last,
    and `score` its discounted mean. A copy takes over the score from its parent. It has served
    nothing yet: it is compared with others on chunks of its own.
    """

    setting: Setting
    """With which it trains next."""
    score: float | None = None
    excess: tuple[float, ...] = ()
    parent: int | None = None
    """The line that it is a copy of; None: it was there from the start."""
    born: int | None = None
    """The cycle after which it was copied."""


@dataclass(frozen=True, slots=True)
class Lineages:
    """All lines of an arm, by line number, and which one is the champion."""

    lines: tuple[LineState, ...]
    champion: int | None = None
    members: tuple[int, ...] = ()
    """The lines whose mean is served, each in its seat; none: the champion alone is served."""

    @property
    def served(self) -> tuple[int, ...]:
        """The lines that are served."""
        return self.members or (() if self.champion is None else (self.champion,))


@dataclass(frozen=True, slots=True)
class Replacement:
    """A line that was replaced by a copy of its parent, and why."""

    line: int
    parent: int
    reason: str

    @property
    def was_lost(self) -> bool:
        """Whether the line itself did not end well; otherwise it has served worse than others."""
        return self.reason.startswith("it ")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a cycle has changed: the lines, those that were replaced, and why this champion."""

    state: Lineages
    replaced: tuple[Replacement, ...]
    why: str


@dataclass(frozen=True, slots=True)
class CycleScores:
    """What a cycle has shown: how each line trained, and how it would have served before."""

    cycle: int
    constant_logloss: float
    outcomes: Sequence[Outcome]
    served: Mapping[int, float]


def line_draws(rng: np.random.Generator, lines: int, width: int) -> Draws:
    """The draws of a cycle: a row for each line, the same for every arm; `width` parameters."""
    first = rng.random((lines, CHOICES + len(PARAMETERS)))  # the same whatever else is drawn
    return np.hstack([first, rng.random((lines, width - len(PARAMETERS)))])


def first_lines(
    options: LineagesSelect, space: Space, centre: Setting | None, draws: Draws
) -> Lineages:
    """Lines around a setting, by default `start`. Line 0 has exactly that setting."""
    start = options.start
    centre = fitted_to(space, centre or Setting(start.eta0, start.alpha, start.beta))
    factors = options.within.model_dump()
    near = {
        name: narrowed(span, centre.value(name) or 0.0, factors[name]) if name in factors else span
        for name, span in space.items()
    }
    drawn = [LineState(setting_at(near, row[CHOICES:])) for row in draws]
    return Lineages((LineState(centre), *drawn[1:]))


def judge(
    options: LineagesSelect,
    space: Space,
    before: Lineages,
    seen: CycleScores,
    draws: Draws,
    mean_of: int = 1,
) -> Judgement:
    """Learn from a cycle. The order of outcomes does not matter."""
    found = _judge_lines(options, space, before, seen, draws)
    members = together(mean_of, before.members, found.state, found.replaced)
    return replace(found, state=replace(found.state, members=members))


def together(
    count: int, before: tuple[int, ...], state: Lineages, replaced: Sequence[Replacement]
) -> tuple[int, ...]:
    """The lines whose mean is served: the champion and the best of the others, as many as `count`.

    A change costs a whole model, so members keep their seats once lines have been compared on a few
    chunks. A line that was replaced leaves at once. Otherwise at most one leaves in a cycle: the
    worst, for a new champion, or for the best line outside if that is better with certainty.
    """
    lines, champion = state.lines, state.champion
    if count == 1 or champion is None:
        return ()
    copies = {one.line for one in replaced}
    ranked = sorted(
        range(len(lines)), key=lambda i: (i in copies, i != champion, _rank(lines[i]), i)
    )
    stay = set(before) - copies
    if all(len(line.excess) < MIN_CHUNKS for line in lines):
        stay &= set(ranked[:count])
    outside = [i for i in ranked if i not in stay]
    if len(stay) == count and outside:
        worst, best = max(stay, key=ranked.index), outside[0]
        if best == champion or _is_better(lines[best], lines[worst], CERTAIN):
            stay.remove(worst)
    taken = iter(outside)
    return tuple(i if i in stay else next(taken) for i in before or (None,) * count)


def _judge_lines(
    options: LineagesSelect, space: Space, before: Lineages, seen: CycleScores, draws: Draws
) -> Judgement:
    status = {outcome.instance: outcome.status for outcome in seen.outcomes}
    lines = [_scored(options, line, i, seen) for i, line in enumerate(before.lines)]
    alive = [i for i in range(len(lines)) if status[i] in (Status.RETAINED, Status.LATE)]
    if not alive:
        cautious = [_with_smaller_steps(line, space) for line in lines]
        why = "every line was lost: all keep their models, with smaller step sizes"
        return Judgement(Lineages(tuple(cautious), before.champion), (), why)
    ranked = sorted(alive, key=lambda i: (_rank(lines[i]), i))
    champion, why = _champion(before.champion, lines, ranked, seen)
    lost = {i: f"it {status[i].value}" for i in range(len(lines)) if i not in alive}
    worst = _worst(options, lines, ranked, champion, seen.cycle)
    replaced = []
    kept = [i for i in ranked if i not in worst]
    for i, reason in sorted((lost | worst).items()):
        parent = _parent(options, kept, i, len(lines), draws[i])
        replaced.append(Replacement(i, parent, reason))
    for one in replaced:
        lines[one.line] = _copy(options, space, lines[one.parent], one, seen.cycle, draws)
    return Judgement(Lineages(tuple(lines), champion), tuple(replaced), why)


def _scored(options: LineagesSelect, line: LineState, number: int, seen: CycleScores) -> LineState:
    """The line with this chunk's served log-loss. Where there is none, its mean stands in."""
    if not seen.served:  # no line has learnt anything yet
        return line
    excess = line.score or 0.0
    if number in seen.served:
        excess = seen.served[number] - seen.constant_logloss
        excess = round(min(excess, WORST), 7) if math.isfinite(excess) else WORST
    kept = 0.5 ** (1.0 / options.half_life)
    score = excess if line.score is None else round(kept * line.score + (1 - kept) * excess, 9)
    return replace(line, score=score, excess=(*line.excess, excess)[-WINDOW:])


def _rank(line: LineState) -> float:
    return math.inf if line.score is None else line.score


def _champion(
    champion: int | None, lines: Sequence[LineState], ranked: Sequence[int], seen: CycleScores
) -> tuple[int | None, str]:
    """The champion after this cycle, and why it is. Late lines come last."""
    in_chunk = {o.instance: o.logloss for o in seen.outcomes if o.status is Status.RETAINED}
    if champion is None:
        if not in_chunk:
            return None, "no line has trained in time"
        if 0 in in_chunk:
            return 0, "the first: line 0, which has the start setting"
        best = min(in_chunk, key=lambda i: (in_chunk[i], i))
        return best, "the first: line 0 was lost, this one has the lowest log-loss"
    if champion not in ranked:
        best = next((i for i in ranked if i in in_chunk), ranked[0])
        return best, f"line {champion} was lost, this one has the lowest discounted served log-loss"
    proven = [
        i for i in ranked if len(lines[i].excess) >= MIN_CHUNKS and (i in in_chunk or i == champion)
    ]
    if not proven:
        return champion, "there are too few chunks to compare lines"
    best = proven[0]
    if best == champion:
        return champion, "it has the lowest discounted served log-loss"
    gain, error, chunks = paired_gain(lines[champion], lines[best])
    found = _text(gain, error, chunks)
    if _is_better(lines[best], lines[champion], ERRORS):
        return best, f"its served log-loss is below that of line {champion} by {found}"
    return champion, f"line {best} is not better with certainty: {found}"


def paired_gain(champion: LineState, other: LineState) -> tuple[float, float, int]:
    """By how much a line serves better than the champion on the last chunks: mean and error."""
    n = min(len(champion.excess), len(other.excess))
    if n < 2:
        return 0.0, math.inf, n
    pairs = zip(champion.excess[-n:], other.excess[-n:], strict=True)
    gains = [ours - theirs for ours, theirs in pairs]
    return fmean(gains), stdev(gains) / math.sqrt(n), n


def _is_better(challenger: LineState, line: LineState, errors: float) -> bool:
    """Whether a line serves better than another by more than so many standard errors."""
    gain, error, chunks = paired_gain(line, challenger)
    return chunks >= MIN_CHUNKS and gain > errors * error


def _text(gain: float, error: float, chunks: int) -> str:
    return f"{gain:.6f} ± {error:.6f} a chunk over {chunks} chunks"


def _worst(
    options: LineagesSelect,
    lines: Sequence[LineState],
    ranked: Sequence[int],
    champion: int | None,
    cycle: int,
) -> dict[int, str]:
    """The lines that are due to be replaced, because they are worse with certainty."""
    found: dict[int, str] = {}
    if champion is None:
        return found
    groups = len(options.replace_every)
    for group, every in enumerate(options.replace_every):
        own = [i for i in ranked if i % groups == group and lines[i].score is not None]
        if (cycle + 1) % every or len(own) < 2:
            continue
        for i in own[-max(int(options.replace_share * len(own)), 1) :]:
            gain, error, chunks = paired_gain(lines[i], lines[champion])
            if chunks >= 2 * MIN_CHUNKS and gain > CERTAIN * error:
                found[i] = f"worse than line {champion} by {_text(gain, error, chunks)}"
    return found


def _parent(
    options: LineagesSelect, kept: Sequence[int], line: int, lines: int, draws: np.ndarray
) -> int:
    """One of the best of all, or of the line's own group."""
    groups = max(len(options.replace_every), 1)
    own = [i for i in kept if i % groups == line % groups]
    pool = own if own and draws[0] < 0.5 else kept
    size = lines if pool is kept else math.ceil(lines / groups)
    best = pool[: max(int(options.replace_share * size), 1)]
    return best[int(draws[1] * len(best))]


def _copy(
    options: LineagesSelect,
    space: Space,
    parent: LineState,
    one: Replacement,
    cycle: int,
    draws: Draws,
) -> LineState:
    """A copy with a setting near that of its parent."""
    centre = fitted_to(space, parent.setting)
    near = {
        name: narrowed(
            span,
            centre.value(name) or 0.0,
            getattr(options.spread, name if name in PARAMETERS else "others"),
        )
        for name, span in space.items()
    }
    setting = setting_at(near, draws[one.line, CHOICES:])
    return LineState(setting, parent.score, parent=one.parent, born=cycle)


def _with_smaller_steps(line: LineState, space: Space) -> LineState:
    return replace(line, setting=with_shorter_steps(line.setting, space, SHRINK))
