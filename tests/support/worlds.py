"""Small random worlds, as the kernel sees them and as the oracle does, and how far apart they end.

A world is a geometry, a few values a feature, a handful of events that share them, and a state
somewhere in the middle of training. What is random comes from one seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.lanemath import CONSTANTS
from divergence.rules import RULES, Rule, make_rule
from divergence.simd import padded
from support.oracle import DUAL, Bags, Event, Oracle, Side, places
from trainer.geometry import PARTS, Shape
from trainer.kernel import EventRows, Rates, Tables, train_block
from trainer.static_shape import StaticShape

EPS = 2.0**-24  # float32 rounds by half an ulp
POWER = {True: 4e-7, False: 2e-5}  # divergence/lanemath.py's two accuracies, by `reference`
EXPONENTIAL = 50 * EPS + 4e-7  # of e**x, |x| <= 50, relative


@dataclass(frozen=True)
class World:
    """Everything but the state."""

    k: int
    overlap: int
    alone: int
    ads: int
    multi: bool
    values: int
    events: tuple[Event, ...]
    rates: Rates
    rule: str
    holds: dict[str, Any]

    @property
    def lengths(self) -> tuple[int, int]:
        """d and N."""
        k, o, s = self.k, self.overlap, self.alone
        return (k - 1) * o + s, k * (k - 1) // 2 * o + k * s

    @property
    def shape(self) -> Shape:
        """For the kernel."""
        d, n = self.lengths
        slots = (0, 0) if self.multi else (self.k, self.ads)
        return Shape(self.k, self.overlap, self.alone, d, n, padded(d), padded(n), *slots)

    @property
    def made_rule(self) -> Rule:
        """For the kernel."""
        return make_rule(self.rule, **self.holds)

    def slots(self, side: str) -> EventRows:
        """For the kernel: read-only, as chunks are."""
        start, row, feature, weight = [0], [], [], []
        for event in self.events:
            for number, bag in enumerate(getattr(event, side)):
                for r, w in bag:
                    row.append(r)
                    feature.append(number)
                    weight.append(w)
            start.append(len(row))
        arrays = (
            np.array(start, np.int64),
            np.array(row, np.int32),
            np.array(feature if self.multi else [], np.int32),
            np.array(weight if self.multi else [], np.float32),
        )
        for array in arrays:
            array.setflags(write=False)
        return EventRows(*arrays)

    @property
    def click(self) -> NDArray[np.uint8]:
        """For the kernel."""
        click = np.array([event.click for event in self.events], np.uint8)
        click.setflags(write=False)
        return click


def make_world(
    seed: int,
    geometry: tuple[int, int, int, int],
    *,
    multi: bool,
    rule: str,
    holds: dict[str, Any],
    events: int,
    rates: tuple[float, float, float],
    tau: float = 15.0,
    reference: bool = True,
    values: int = 3,
) -> World:
    """Events whose features take one value each, or (where `multi`) up to three with weights."""
    k, overlap, alone, ads = geometry
    draw = np.random.default_rng(seed)

    def bags(features: int) -> Bags:
        made = []
        for f in range(features):
            size = int(draw.integers(1, min(3, values) + 1)) if multi else 1
            chosen = draw.choice(values, size, replace=False)
            weights = draw.uniform(0.05, 1.0, size)
            shares = (weights / weights.sum()).astype(np.float32)
            made.append(
                tuple((f * values + int(r), float(w)) for r, w in zip(chosen, shares, strict=True))
            )
        return tuple(made)

    happened = tuple(Event(int(draw.random() < 0.4), bags(k), bags(ads)) for _ in range(events))
    settings = Rates(*rates, tau, reference)
    return World(k, overlap, alone, ads, multi, values, happened, settings, rule, full(rule, holds))


def full(rule: str, holds: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a rule with its defaults."""
    kind: Any = RULES[rule]
    return {**kind._field_defaults, **holds}


def first_state(world: World, seed: int, *, size: float, sums: float) -> Oracle:
    """A state whose numbers are float32, so that both sides begin with the same ones."""
    draw = np.random.default_rng(seed)
    low = max(world.holds.get("mu_floor", 0.0), 1e-3)
    sides = []
    for features, width in zip((world.k, world.ads), world.lengths, strict=True):
        rows = features * world.values
        sides.append(
            Side(
                draw.normal(0, size, (rows, width)).astype(np.float32).astype(np.float64),
                draw.uniform(0, sums, (rows, width)).astype(np.float32).astype(np.float64),
                draw.uniform(low, low + 1, rows).astype(np.float32).astype(np.float64),
            )
        )
    rates = world.rates
    return Oracle(
        world.k,
        world.overlap,
        world.alone,
        *sides,
        eta0=rates.eta0,
        alpha=rates.alpha,
        beta=rates.beta,
        tau=rates.tau,
        rule=world.rule,
        holds=world.holds,
        bias=float(draw.normal(0, 0.5)),
        bias_sum=float(draw.uniform(0, sums)),
    )


def tables_of(world: World, state: Oracle) -> Tables:
    """The kernel's tables of an oracle's state."""
    flat = []
    for side, scratch in ((state.user, world.k), (state.ad, 0)):
        rows, width = side.theta.shape
        table = np.zeros((rows + scratch, PARTS, padded(width)), np.float32)
        table[:rows, 0, :width] = side.theta
        table[:rows, 1, :width] = side.sums
        table[:rows, 2, :width] = side.sums - table[:rows, 1, :width]
        flat.append(table.reshape(-1))
    mus = (side.mu.astype(np.float32) for side in (state.user, state.ad))
    return Tables(*flat, *mus, np.array([state.bias, state.bias_sum]))


def state_of(world: World, tables: Tables, like: Oracle) -> Oracle:
    """An oracle in the state of the kernel's tables."""
    state = like.copy()
    for side, table, mu, width in (
        (state.user, tables.user, tables.user_mu, world.lengths[0]),
        (state.ad, tables.ad, tables.ad_mu, world.lengths[1]),
    ):
        rows = table.reshape(-1, PARTS, padded(width))[: len(side.theta)].astype(np.float64)
        side.theta[:], side.sums[:] = rows[:, 0, :width], rows[:, 1, :width] + rows[:, 2, :width]
        side.mu[:] = mu
    state.bias, state.bias_sum = float(tables.bias[0]), float(tables.bias[1])
    return state


def padding_of(world: World, tables: Tables) -> NDArray[np.float32]:
    """Every entry of every row that only fills a register."""
    parts = []
    for table, rows, width in (
        (tables.user, world.k * world.values, world.lengths[0]),
        (tables.ad, world.ads * world.values, world.lengths[1]),
    ):
        parts.append(table.reshape(-1, PARTS, padded(width))[:rows, :, width:].reshape(-1))
    return np.concatenate(parts)


def copied(tables: Tables) -> Tables:
    """Tables of their own."""
    return Tables(*(array.copy() for array in tables))


def train_kernel(
    world: World, tables: Tables, first: int = 0, last: int | None = None, *, fixed: bool = False
) -> tuple[int, NDArray[np.float32]]:
    """Train the tables in place; the event that diverged or -1, and the margins."""
    last = len(world.events) if last is None else last
    margin = np.full(padded(len(world.events)), -1e30, np.float32)
    shape = StaticShape(world.shape) if fixed else world.shape
    bad = train_block(
        world.click,
        world.slots("user"),
        world.slots("ad"),
        tables,
        shape,
        world.rates,
        world.made_rule,
        first,
        last,
        margin,
        CONSTANTS,
    )
    return int(bad), margin


@dataclass(frozen=True)
class Sizes:
    """How large the numbers of one event's step are: what rounding errors are relative to."""

    logit: float  # |b| + sum |user entry| |ad entry|
    user: float  # the largest gradient of a user feature, were the slope 1
    ad: float


def sizes(state: Oracle, event: Event) -> Sizes:
    """Of the step that the state is about to take."""
    absolute = state.copy()
    absolute.user.theta, absolute.ad.theta = np.abs(state.user.theta), np.abs(state.ad.theta)
    absolute.bias = abs(state.bias)
    users = [np.sum([w * absolute.user.theta[r] for r, w in bag], axis=0) for bag in event.user]
    ad = np.sum([w * absolute.ad.theta[r] for bag in event.ad for r, w in bag], axis=0)
    where = places(state.k, state.overlap, state.alone)
    spread = [np.ones(len(ad)) for _ in users]
    for vector, place, full_vector in zip(users, where, spread, strict=True):
        full_vector[place] = vector
    others = [
        np.prod([v for j, v in enumerate(spread) if j != f], axis=0) * ad
        for f in range(len(spread))
    ]
    user = max(float(np.max(o[p])) for o, p in zip(others, where, strict=True))
    nu_user = np.prod(spread, axis=0)
    return Sizes(absolute.bias + float(nu_user @ ad), user, float(np.max(nu_user)))


@dataclass(frozen=True)
class Gap:
    """The kernel's step against the oracle's: the largest errors in units of what is allowed."""

    theta: float
    sums: float
    mu: float
    bias: float
    relative: float  # the largest error of an entry, relative to its vector's largest


def step_gap(world: World, before: Oracle, after: Oracle, kernel: Oracle, event: Event) -> Gap:
    """What a step may cost in accuracy, to first order in float32's rounding.

    The slope is wrong by a quarter of the logit's error, and by the rounding of p - y; with it
    every gradient. A step adds the error of its power. The rest is rounding of what is added up.
    Roundings mostly cancel: four in a row is more than any step has been seen to lose.
    """
    unit, power = 4 * EPS, POWER[world.rates.reference]
    size = sizes(before, event)
    slope_error = unit * (1.0 + size.logit)
    theta = sums = mu = relative = 0.0
    for side, old, new, gradient in (
        (kernel.user, before.user, after.user, size.user),
        (kernel.ad, before.ad, after.ad, size.ad),
    ):
        for row in range(len(old.theta)):
            was, is_, got = old.theta[row], new.theta[row], side.theta[row]
            largest = float(np.max(np.abs(was)) + np.max(np.abs(is_)))
            steps = float(np.max(after.step(new.sums[row])))
            pulled = np.max(new.sums[row] - old.sums[row])  # what the sum has grown by
            penalty = penalty_of(world, old, row) * float(np.max(np.abs(was)))
            allowed = unit * largest
            allowed += steps * gradient * slope_error * (1 + world.rates.beta)
            allowed += power * steps * (float(pulled) + gradient + penalty)
            wobble = denominator_error(world, new.sums[row], gradient * slope_error)
            allowed += wobble * steps * (float(pulled) + penalty)
            error = float(np.max(np.abs(got - is_)))
            theta = max(theta, error / allowed)
            relative = max(relative, error / max(float(np.max(np.abs(is_))), 1e-30))
            room = unit * (new.sums[row] + pulled) + gradient * slope_error
            sums = max(sums, float(np.max(np.abs(side.sums[row] - new.sums[row]) / room)))
            if world.rule in DUAL:
                squares = float(np.mean(is_**2)) + world.holds["rho"]
                drift = 2 * largest * allowed + unit * squares
                drift *= world.holds.get("dual_step", 0.0)
                scale = 1.0 if world.rule == "euclidean" else float(new.mu[row])
                mu_room = scale * drift + EXPONENTIAL * float(new.mu[row])
                mu = max(mu, abs(float(side.mu[row] - new.mu[row])) / mu_room)
    step = float(after.step(after.bias_sum))
    room = step * (slope_error * (1 + world.rates.beta) + power) + 1e-12
    bias = abs(kernel.bias - after.bias) / room
    return Gap(theta, sums, mu, bias, relative)


def denominator_error(world: World, sums: NDArray[np.float64], error: float) -> float:
    """By how much of itself alpha + sum^beta changes with such an error of the sums.

    It matters for tiny sums, which are made of little else, beside a penalty outside the sum.
    """
    at = np.maximum(sums, error)
    power = at**world.rates.beta
    return float(np.max(power / (world.rates.alpha + power) * error / at))


def penalty_of(world: World, side: Side, row: int) -> float:
    """The coefficient of a vector's penalty, which may or may not be in its sum."""
    if world.rule in DUAL:
        return 2.0 * float(side.mu[row]) / side.theta.shape[1]
    return float(world.holds.get("lam", 0.0))


def near_a_jump(world: World, state: Oracle) -> bool:
    """Whether some vector is so near to rho that `naive` may turn either way."""
    if world.rule != "naive":
        return False
    squares = np.concatenate([np.mean(s.theta**2, axis=1) for s in (state.user, state.ad)])
    return bool(np.any(np.abs(squares - world.holds["rho"]) < 1e-4 * world.holds["rho"]))


def touched_rows(events: tuple[Event, ...], side: str) -> list[int]:
    """The rows of a side that these events update."""
    return sorted({row for event in events for bag in getattr(event, side) for row, _ in bag})


def calm_world(rule: str, *, multi: bool = False, events: int = 60) -> tuple[World, Oracle]:
    """A world in which nothing diverges, and where it begins."""
    holds = {"rho": 0.05, "dual_step": 3.0} if rule == "entropic" else {}
    world = make_world(
        11, (3, 4, 2, 4), multi=multi, rule=rule, holds=holds, events=events, rates=(0.5, 1.0, 0.6)
    )
    return world, first_state(world, 12, size=0.3, sums=0.0)
