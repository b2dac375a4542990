"""The slow oracle: one training instance in float64 and plain loops, from the paper's formulas.

Written from sections III to V of the paper alone, never from the kernel; the step of a vector is
the rule's own `oracle`. A side of the model is one table of vectors; an event names, feature by
feature, rows of it and weights.
"""

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.rules import make_rule

Vector = NDArray[np.float64]
Places = list[NDArray[np.int64]]
Bags = tuple[tuple[tuple[int, float], ...], ...]
"""Feature by feature: the rows of its values and their weights, which sum to 1."""


def places(k: int, overlap: int, alone: int) -> Places:
    """Where in the user's vector (length N) each entry of each feature's (length d) is.

    Each pair of features shares `overlap` entries, pairs in the order (0, 1), (0, 2), ..., (1, 2),
    and behind the pairs come each feature's own `alone` entries. A feature's vector holds what it
    shares with each other feature, in the order of those, and then its own.
    """
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    where: list[list[int]] = [[] for _ in range(k)]
    for feature in range(k):
        for at, pair in enumerate(pairs):
            if feature in pair:
                where[feature] += range(at * overlap, (at + 1) * overlap)
        first = len(pairs) * overlap + feature * alone
        where[feature] += range(first, first + alone)
    return [np.array(entries, np.int64) for entries in where]


def filled(vector: Vector, place: NDArray[np.int64], length: int) -> Vector:
    """The vector spread over the user's entries, its empty entries filled with ones."""
    spread = np.ones(length)
    spread[place] = vector
    return spread


def user_vector(vectors: list[Vector], where: Places, length: int) -> Vector:
    """The filled vectors multiplied entry by entry (the paper's figure 2)."""
    product = np.ones(length)
    for vector, place in zip(vectors, where, strict=True):
        product = product * filled(vector, place, length)
    return product


def log_loss(logit: float, click: int) -> float:
    """-y log p - (1 - y) log(1 - p), where p is the sigmoid of the logit."""
    z = -logit if click else logit
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def slope(logit: float, click: int) -> float:
    """The derivative of the log-loss by the logit: p - y."""
    if logit >= 0:
        p = 1.0 / (1.0 + math.exp(-logit))
        return -math.exp(-logit) * p if click else p
    e = math.exp(logit)
    return -1.0 / (1.0 + e) if click else e / (1.0 + e)


@dataclass(frozen=True)
class Event:
    """A click or none, and the values of its features on each side."""

    click: int
    user: Bags
    ad: Bags


@dataclass
class OracleSide:
    """The vectors of one side, their AdaGrad sums and their multipliers."""

    theta: Vector
    sums: Vector
    mu: Vector


@dataclass
class Oracle:
    """A model in training. `rule` is a rule's name, `holds` are its parameters."""

    k: int
    overlap: int
    alone: int
    user: OracleSide
    ad: OracleSide
    eta0: float
    alpha: float
    beta: float
    tau: float = 15.0
    rule: str = "none"
    holds: dict[str, Any] = field(default_factory=dict)
    bias: float = 0.0
    bias_sum: float = 0.0
    slope_error: float = 0.0
    """What is added to every slope: tells what rounding may do."""

    @property
    def where(self) -> Places:
        """The construction of the user's vector."""
        return places(self.k, self.overlap, self.alone)

    def copy(self) -> "Oracle":
        """Another oracle in the same state."""
        return deepcopy(self)

    def logit(self, event: Event) -> float:
        """b + <user vector, ad vector>."""
        users = [mean(self.user, bag) for bag in event.user]
        ads = sum(mean(self.ad, bag) for bag in event.ad)
        length = self.ad.theta.shape[1]
        return self.bias + float(user_vector(users, self.where, length) @ ads)

    def loss(self, event: Event) -> float:
        """The event's log-loss, without any penalty."""
        return log_loss(self.logit(event), event.click)

    def gradients(self, event: Event) -> Iterator[tuple[OracleSide, int, Vector]]:
        """The gradient of the event's log-loss by each vector it touches."""
        where, length = self.where, self.ad.theta.shape[1]
        users = [mean(self.user, bag) for bag in event.user]
        nu_user = user_vector(users, where, length)
        nu_ad = sum(mean(self.ad, bag) for bag in event.ad)
        error = slope(self.bias + float(nu_user @ nu_ad), event.click) + self.slope_error
        for feature, bag in enumerate(event.user):
            others = np.ones(length)  # the user's vector, but for this feature
            for other in range(self.k):
                if other != feature:
                    others = others * filled(users[other], where[other], length)
            of_mean = error * (others * nu_ad)[where[feature]]
            for row, weight in bag:
                yield self.user, row, weight * of_mean
        for bag in event.ad:
            for row, weight in bag:
                yield self.ad, row, weight * error * nu_user

    def train(self, event: Event) -> bool:
        """One step on one event; whether every vector it touched is still below tau."""
        error = slope(self.logit(event), event.click)
        safe = True
        updates = list(self.gradients(event))
        self.bias_sum += abs(error)
        scale = self.held_back(updates, error + self.slope_error)
        for side, row, gradient in updates:
            self.update(side, row, gradient, scale)
            safe = safe and bool(np.all(np.abs(side.theta[row]) < self.tau))
        self.bias -= scale * self.step(self.bias_sum) * error
        return safe

    def held_back(self, updates: list[tuple[OracleSide, int, Vector]], error: float) -> float:
        """By what all steps of an event are multiplied: 1 where the rule has no damping."""
        rule = self.made_rule
        if not hasattr(rule, "logit_damping"):
            return 1.0
        reach = float(self.step(self.bias_sum))
        for side, row, g in updates:
            sums = rule.oracle(side.theta[row], g, side.sums[row], side.mu[row], self.step)[1]
            reach += float(np.sum(self.step(sums) * (g / error) ** 2)) if error else 0.0
        return float(1.0 / np.hypot(1.0, float(rule.logit_damping()) * reach))

    def run(self, events: list[Event]) -> tuple[list[float], int]:
        """The logits before each step, and the index of the event that diverged, or -1."""
        logits = []
        for number, event in enumerate(events):
            logits.append(self.logit(event))
            if not self.train(event):
                return logits, number
        return logits, -1

    def step(self, sums: Any) -> Any:
        """eta0 / (alpha + sums ** beta)."""
        return self.eta0 / (self.alpha + sums**self.beta)

    def update(self, side: OracleSide, row: int, g: Vector, scale: float = 1.0) -> None:
        """The step of one vector, which is the rule's, with step sizes times `scale`."""
        was = side.theta[row], g, side.sums[row], float(side.mu[row])
        side.theta[row], side.sums[row], side.mu[row] = self.made_rule.oracle(
            *was, lambda sums: scale * self.step(sums)
        )

    @property
    def made_rule(self) -> Any:
        """The rule with its parameters."""
        return make_rule(self.rule, **self.holds)


def mean(side: OracleSide, bag: tuple[tuple[int, float], ...]) -> Vector:
    """The weighted mean of a feature's values."""
    total: Vector = np.sum([weight * side.theta[row] for row, weight in bag], axis=0)
    return total
