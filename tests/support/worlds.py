"""Worlds for the tests: how far apart the kernel and the oracle may end, from the formulas."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.oracle import DUAL, Event, Oracle, OracleSide, places
from trainer.contract.worlds import EPS as EPS
from trainer.contract.worlds import POWER as POWER
from trainer.contract.worlds import World as World
from trainer.contract.worlds import copied as copied
from trainer.contract.worlds import first_state as first_state
from trainer.contract.worlds import make_world as make_world
from trainer.contract.worlds import padding_of as padding_of
from trainer.contract.worlds import state_of as state_of
from trainer.contract.worlds import tables_of as tables_of
from trainer.contract.worlds import touched_rows as touched_rows
from trainer.contract.worlds import train_kernel as train_kernel

EXPONENTIAL = 50 * EPS + 4e-7  # of e**x, |x| <= 50, relative


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


def penalty_of(world: World, side: OracleSide, row: int) -> float:
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


def calm_world(rule: str, *, multi: bool = False, events: int = 60) -> tuple[World, Oracle]:
    """A world in which nothing diverges, and where it begins."""
    holds = {"rho": 0.05, "dual_step": 3.0} if rule == "entropic" else {}
    world = make_world(
        11, (3, 4, 2, 4), multi=multi, rule=rule, holds=holds, events=events, rates=(0.5, 1.0, 0.6)
    )
    return world, first_state(world, 12, size=0.3, sums=0.0)
