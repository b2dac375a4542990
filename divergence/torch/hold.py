"""What a rule does to the rows that an optimizer has just moved: plain functions of tensors.

All take rows [n, d] and numbers [n]. The numbers are float64, so that the length of a huge but
finite row does not overflow. NaN stays NaN everywhere.
"""

import math

import torch
from torch import Tensor

from divergence.rules import Rule
from divergence.rules.euclidean import Euclidean

MAX_EXPONENT = 50.0
MEASURABLE = 1e-5
"""A move shorter than this share of its row is mostly rounding in float32."""


def hold(
    rule: Rule, before: Tensor, after: Tensor, gradient: Tensor, mu: Tensor
) -> tuple[Tensor, Tensor]:
    """The rows and multipliers after the rule, from the rows before and after the optimizer.

    Rows with a gradient of zero (an optimizer's momentum moves them) keep their multiplier and have
    no penalty: their step size is not known.
    """
    touched = (gradient != 0).any(1)
    width = after.shape[1]
    theta = after
    if getattr(rule, "damping", 0.0):
        theta = damped(rule.damping / math.sqrt(rule.rho * width), before, after)
    step = torch.where(touched, step_sizes(before, theta, gradient), 0.0)
    theta = scaled(theta, 1 / (1 + step * 2 * mu / width))
    if hasattr(rule, "wall"):
        theta = within(math.sqrt(rule.wall * rule.rho * width), theta)
    msqr = length(theta).square() / width
    return theta, torch.where(touched, ascend(rule, mu, msqr), mu)


def damped(damping: float, before: Tensor, after: Tensor) -> Tensor:
    """Moves shorter than 1 / damping, in their direction; those far shorter stay as they are."""
    move = after - before
    return before + scaled(move, 1 / torch.hypot(torch.ones(()).double(), damping * length(move)))


def step_sizes(before: Tensor, after: Tensor, gradient: Tensor) -> Tensor:
    """The step size that the optimizer has used for each row: its move per gradient, in length.

    That of the table where a row's own move is lost in rounding.
    """
    move, slope = length(after - before), length(gradient)
    known = (move > MEASURABLE * length(before)) & (slope > 0) & torch.isfinite(move + slope)
    total = torch.linalg.vector_norm(slope[known]).clamp(min=1e-300)
    of_table = torch.linalg.vector_norm(move[known]) / total
    return torch.where(known, move / slope, of_table)


def within(most: float, rows: Tensor) -> Tensor:
    """Rows longer than `most` scaled back to it."""
    long = length(rows)
    return scaled(rows, torch.where(long > most, most / long, 1.0))


def ascend(rule: Rule, mu: Tensor, msqr: Tensor) -> Tensor:
    """The dual step: rise with the violation, fall with the slack."""
    violation = rule.dual_step * (msqr - rule.rho)
    if isinstance(rule, Euclidean):
        moved = mu + violation
    else:
        moved = mu * torch.exp(violation.clamp(-MAX_EXPONENT, MAX_EXPONENT))
    return moved.clamp(rule.mu_floor, rule.mu_ceiling)


def length(rows: Tensor) -> Tensor:
    """Euclidean norms, in float64."""
    return torch.linalg.vector_norm(rows, dim=1, dtype=torch.float64)


def scaled(rows: Tensor, factors: Tensor) -> Tensor:
    """Each row times its factor."""
    return rows * factors.to(rows.dtype).unsqueeze(1)
