"""Small random worlds, as the kernel sees them and as the oracle does.

A world is a geometry, a few values a feature, a handful of events that share them, and a state
somewhere in the middle of training. What is random comes from one seed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.lanemath import CONSTANTS
from divergence.rules import Rule, make_rule, rule_class
from divergence.simd import padded
from trainer.contract.oracle import Bags, Event, Oracle, OracleSide
from trainer.geometry import PARTS, Shape
from trainer.kernel import EventRows, Rates, Tables, train_block
from trainer.static_shape import StaticShape

EPS = 2.0**-24  # float32 rounds by half an ulp
POWER = {True: 4e-7, False: 2e-5}  # divergence/lanemath.py's two accuracies, by `reference`


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
    return {**rule_class(rule)._field_defaults, **holds}


def first_state(world: World, seed: int, *, size: float, sums: float) -> Oracle:
    """A state whose numbers are float32, so that both sides begin with the same ones."""
    draw = np.random.default_rng(seed)
    low = max(world.holds.get("mu_floor", 0.0), 1e-3)
    sides: list[Any] = []
    for features, width in zip((world.k, world.ads), world.lengths, strict=True):
        rows = features * world.values
        sides.append(
            OracleSide(
                draw.normal(0, size, (rows, width)).astype(np.float32).astype(np.float64),
                draw.uniform(0, sums, (rows, width)).astype(np.float32).astype(np.float64),
                draw.uniform(low, low + 1, rows).astype(np.float32).astype(np.float64),
            )
        )
    rates = world.rates
    user, ad = sides
    return Oracle(
        world.k,
        world.overlap,
        world.alone,
        user,
        ad,
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
    flat: list[Any] = []
    for side, scratch in ((state.user, world.k), (state.ad, 0)):
        rows, width = side.theta.shape
        table = np.zeros((rows + scratch, PARTS, padded(width)), np.float32)
        table[:rows, 0, :width] = side.theta
        table[:rows, 1, :width] = side.sums
        table[:rows, 2, :width] = side.sums - table[:rows, 1, :width]
        flat.append(table.reshape(-1))
    mus: Any = (side.mu.astype(np.float32) for side in (state.user, state.ad))
    arrays: Any = (*flat, *mus, np.array([state.bias, state.bias_sum]))
    return Tables(*arrays)


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
    arrays: Any = (array.copy() for array in tables)
    return Tables(*arrays)


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


def touched_rows(events: tuple[Event, ...], side: str) -> list[int]:
    """The rows of a side that these events update."""
    return sorted({row for event in events for bag in getattr(event, side) for row, _ in bag})
