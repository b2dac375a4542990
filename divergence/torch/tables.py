"""The embedding tables of a model, and the row of one that has diverged."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from divergence.errors import InputError


class DivergedRow(NamedTuple):
    """A row with an entry that is not below tau, or not finite."""

    table: str
    row: int
    inf: float
    """Its largest |entry|; NaN if an entry is NaN."""


def tables_of(modules: nn.Module | Iterable[nn.Module]) -> dict[str, Tensor]:
    """The weights of every trainable nn.Embedding and nn.EmbeddingBag in some modules, by name.

    A weight that several of them share is there once. InputError if there is none.
    """
    one = isinstance(modules, nn.Module)
    found: dict[str, Tensor] = {}
    for number, module in enumerate([modules] if one else modules):
        if not isinstance(module, nn.Module):
            raise InputError(
                f"DualAscent takes an nn.Module or a list of them, but got {type(module).__name__}"
            )
        for inner, part in module.named_modules():
            if not isinstance(part, nn.Embedding | nn.EmbeddingBag):
                continue
            known = any(part.weight is weight for weight in found.values())
            if part.weight.requires_grad and not known:
                outer = "" if one else str(number)
                found[".".join(filter(None, (outer, inner))) or "table"] = part.weight
    if not found:
        raise InputError("DualAscent found no trainable nn.Embedding or nn.EmbeddingBag")
    return found


def diverged(modules: nn.Module | Iterable[nn.Module], tau: float = 15.0) -> DivergedRow | None:
    """The worst row of the tables that is not below tau, or None. A pass over every table.

    A row with NaN is the worst; else that with the largest entry; the first one of several.
    """
    return worst_row(tables_of(modules), tau)


def worst_row(tables: dict[str, Tensor], tau: float) -> DivergedRow | None:
    """`diverged`, for the tables by name."""
    if not tau > 0:
        raise InputError(f"diverged: tau must be > 0, but is {tau}")
    worst: DivergedRow | None = None
    for name, weight in tables.items():
        if weight.numel():
            inf = torch.linalg.vector_norm(weight.detach(), float("inf"), dim=1)
            row = int(torch.argmax(inf))  # NaN counts as the largest
            here = DivergedRow(name, row, float(inf[row]))
            if not here.inf < tau and (worst is None or _rank(here) > _rank(worst)):
                worst = here
    return worst


def _rank(found: DivergedRow) -> tuple[bool, float]:
    return math.isnan(found.inf), found.inf
