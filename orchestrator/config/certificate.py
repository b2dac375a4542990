"""Which arms cannot lose an instance to divergence, whatever their settings, and why.

Some rules scale a vector back after every step (the hook `norm_limit`: `projection`, `max_norm`, a
wall). Where the largest norm that they allow is below tau on both sides, no vector can reach tau.
Dual ascent gives no such certificate: a vector may exceed its bound until its multiplier has risen.
"""

import math
from dataclasses import dataclass

import numpy as np

from divergence.bound import rho0
from divergence.rules import Rule
from orchestrator.config.ranges import ends
from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.space import space_of
from trainer.geometry import Shape
from trainer.setting import setting_of

MARGIN = 0.9999
"""The kernel compares squared norms in single precision with this share of tau**2."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What an arm's rule says of its largest vectors."""

    arm: str
    tau: float
    norm: float | None
    """No step leaves a vector longer than this; None where steps are not bounded."""
    rho: float | None
    """The largest bound on the mean square that the arm draws; None where it has none."""
    longest: int
    """The entries of the longest vectors."""

    @property
    def cannot_diverge(self) -> bool:
        """Whether no vector can reach tau."""
        return self.norm is not None and self.norm**2 < MARGIN * self.tau**2

    @property
    def text(self) -> str:
        """The certificate in one sentence."""
        if self.norm is not None:
            held = f"its rule scales every vector back to a norm of {self.norm:.3g} after each step"
            if self.cannot_diverge:
                return (
                    f"{self.arm}: no instance can diverge: {held}, which is below tau = "
                    f"{self.tau:g} (only a step beyond single precision could be lost)"
                )
            return f"{self.arm}: instances can diverge: {held}, not below tau = {self.tau:g}"
        if self.rho is None:
            return f"{self.arm}: instances can diverge: its rule does not bound vectors"
        most = math.sqrt(self.longest * self.rho)
        within = "cannot" if self.longest * self.rho < self.tau**2 else "can"
        return (
            f"{self.arm}: instances can diverge: a vector within its bound {within} reach tau = "
            f"{self.tau:g} (entries up to {most:.3g}), but single steps may exceed the bound"
        )


def certificate(config: RunConfig, arm: ArmConfig, shape: Shape) -> Certificate:
    """Of an arm, for the widest bounds that it draws. `InputError` if its code may not run."""
    space = space_of(config, arm, rho0(shape.ad))
    widest = kernel_rule(arm.rule, setting_of({n: ends(span)[1] for n, span in space.items()}))
    squares = [_largest_square(widest, length) for length in (shape.user, shape.ad)]
    norm = None if math.inf in squares else math.sqrt(max(squares))
    rho = ends(space["rho"])[1] if "rho" in space else None
    return Certificate(arm.name, config.model.tau, norm, rho, max(shape.user, shape.ad))


def _largest_square(rule: Rule, length: int) -> float:
    """The squared norm to which the rule scales vectors of this length back; inf: to none."""
    limit = getattr(rule, "norm_limit", None)
    return math.inf if limit is None else float(limit(np.float32(length)))
