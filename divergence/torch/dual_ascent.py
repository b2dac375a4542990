"""`DualAscent`: one multiplier for each row of a model's embedding tables, beside any optimizer."""

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from divergence.bound import rho0
from divergence.errors import InputError
from divergence.rules import Rule, make_rule
from divergence.torch.hold import hold, length
from divergence.torch.tables import DivergedRow, tables_of, worst_row

DEFAULTS: dict[str, dict[str, float]] = {
    "entropic": {"dual_step": 30.0},
    "euclidean": {"dual_step": 30.0},
    "holdfast": {"dual_step": 30.0, "damping": 30.0},
}
"""The rules, and the defaults that they have here. README.md says how they were chosen."""
FIXED = ("implicit", "penalty_in_sum")
"""Parameters of the rules that have no meaning beside an optimizer of PyTorch."""


class _Before(NamedTuple):
    """A table before the optimizer's step. `rows` is None where the gradient is dense."""

    rows: Tensor | None
    vectors: Tensor
    gradient: Tensor


class DualAscent:
    """Bounds the mean square of each row of some embedding tables by rho, or by k * rho0(d).

        bounds = DualAscent(model, rule="holdfast", k=0.1)
        bounds.attach(optimizer)

    After that the loop is as it was: each `optimizer.step()` is followed by the rule, for the rows
    that it moved. `rule` is entropic, euclidean or holdfast; its constants (`dual_step`, `mu0`,
    `mu_floor`, `mu_ceiling`; `damping`, `wall`) are keywords.
    """

    def __init__(
        self,
        modules: nn.Module | Iterable[nn.Module],
        rule: str = "holdfast",
        *,
        k: float | None = None,
        rho: float | None = None,
        **constants: float,
    ) -> None:
        self._tables = tables_of(modules)
        self._rules = {
            name: _rule(rule, _bound(k, rho, weight.shape[1]), constants)
            for name, weight in self._tables.items()
        }
        self._mu = {name: _first(self._rules[name].mu0, w) for name, w in self._tables.items()}
        self._before: dict[str, _Before] = {}
        for name, weight in self._tables.items():
            _warn_above(name, weight, self._rules[name].rho)

    def attach(self, *optimizers: Optimizer) -> None:
        """Act after every step of these optimizers, which must hold all tables between them."""
        held = [self._names_in(optimizer) for optimizer in optimizers]
        if missing := sorted(self._tables.keys() - {name for names in held for name in names}):
            raise InputError(f"attach: no optimizer has the weight of table {missing[0]!r}")
        for optimizer, names in zip(optimizers, held, strict=True):
            optimizer.register_step_pre_hook(partial(self._pre_hook, names))
            optimizer.register_step_post_hook(partial(self._post_hook, names))

    def before_step(self, names: Iterable[str] | None = None) -> None:
        """Remember the rows that the next step can move. `attach` calls it for you."""
        for name in self._tables if names is None else names:
            weight = self._tables[name]
            if weight.grad is not None:
                self._before[name] = _remembered(weight.detach(), weight.grad)

    def after_step(self, names: Iterable[str] | None = None) -> None:
        """Hold the rows that the step has moved, and ascend. `attach` calls it for you."""
        for name in self._tables if names is None else names:
            if (before := self._before.pop(name, None)) is not None:
                weight = self._tables[name].detach()
                self._mu[name] = self._mu[name].to(weight.device)
                _hold_rows(self._rules[name], weight, self._mu[name], before)

    def diverged(self, tau: float = 15.0) -> DivergedRow | None:
        """The worst row that is not below tau, or None. A pass over every table."""
        return worst_row(self._tables, tau)

    @property
    def multipliers(self) -> Mapping[str, Tensor]:
        """mu of each row, by table."""
        return dict(self._mu)

    @property
    def rules(self) -> Mapping[str, Rule]:
        """The rule of each table with all its constants."""
        return dict(self._rules)

    def state_dict(self) -> dict[str, Any]:
        """All that a resume needs: the multipliers. Constants come from the constructor."""
        return {"mu": {name: mu.clone() for name, mu in self._mu.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue with the multipliers of another `DualAscent` over tables of the same shapes."""
        given = state.get("mu", {})
        if odd := sorted(given.keys() ^ self._mu.keys()):
            where = "state" if odd[0] in given else "model"
            raise InputError(f"load_state_dict: table {odd[0]!r} is in the {where} only")
        for name, mu in self._mu.items():
            if given[name].shape != mu.shape:
                raise InputError(
                    f"load_state_dict: table {name!r} has {len(mu):,} rows, but the state has "
                    f"{len(given[name]):,}"
                )
        for name, mu in self._mu.items():
            mu.copy_(given[name])

    def _names_in(self, optimizer: Optimizer) -> list[str]:
        params = {id(p) for group in optimizer.param_groups for p in group["params"]}
        return [name for name, weight in self._tables.items() if id(weight) in params]

    def _pre_hook(
        self, names: list[str], optimizer: Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if any(one is not None for one in (*args[1:], kwargs.get("closure"))):  # args[0]: itself
            raise InputError(
                "DualAscent cannot see the gradients of a closure: call loss.backward() first, and "
                "optimizer.step() without arguments"
            )
        self.before_step(names)

    def _post_hook(self, names: list[str], *_: Any) -> None:
        self.after_step(names)


def _rule(name: str, rho: float, constants: Mapping[str, float]) -> Rule:
    """The rule with its constants checked; InputError for one that is not offered here."""
    if name not in DEFAULTS:
        raise InputError(f"rule {name!r} is unknown here; the rules are {', '.join(DEFAULTS)}")
    for fixed in FIXED:
        if fixed in constants:
            raise InputError(f"rule {name}: {fixed} cannot be set beside an optimizer of PyTorch")
    return make_rule(name, **{**DEFAULTS[name], **constants, "rho": rho})


def _bound(k: float | None, rho: float | None, width: int) -> float:
    if (k is None) == (rho is None):
        raise InputError(f"DualAscent needs k or rho, and not both, but got (k={k}, rho={rho})")
    if k is not None and not 0 < k < float("inf"):
        raise InputError(f"DualAscent: k must be > 0 and finite, but is {k}")
    return k * rho0(width) if k is not None else rho  # type: ignore[return-value]


def _first(mu0: float, weight: Tensor) -> Tensor:
    kind = torch.promote_types(weight.dtype, torch.float32)
    return torch.full((len(weight),), mu0, dtype=kind, device=weight.device)


def _warn_above(name: str, weight: Tensor, rho: float) -> None:
    """nn.Embedding draws entries of variance 1, which is above most bounds."""
    above = int((length(weight.detach()).square() / weight.shape[1] > rho).sum())
    if 2 * above > len(weight):
        warnings.warn(
            f"table {name!r}: {above:,} of {len(weight):,} rows begin above rho = {rho:.3g} and "
            f"will be shrunk; draw them with a standard deviation well below {rho**0.5:.2g}, or "
            "give a larger bound",
            stacklevel=3,
        )


def _remembered(weight: Tensor, gradient: Tensor) -> _Before:
    if not gradient.is_sparse:
        return _Before(None, weight.clone(), gradient)
    gradient = gradient.coalesce()
    rows = gradient.indices()[0]
    return _Before(rows, weight[rows], gradient.values())


def _hold_rows(rule: Rule, weight: Tensor, mu: Tensor, before: _Before) -> None:
    """Apply the rule, in place, to the rows that have a gradient or were moved."""
    after = weight if before.rows is None else weight[before.rows]
    chosen = ((after != before.vectors) | (before.gradient != 0)).any(1).nonzero().squeeze(1)
    rows = chosen if before.rows is None else before.rows[chosen]
    was, now, gradient = (
        one[chosen].to(mu.dtype) for one in (before.vectors, after, before.gradient)
    )
    held, risen = hold(rule, was, now, gradient, mu[rows].double())
    weight[rows] = held.to(weight.dtype)
    mu[rows] = risen.to(mu.dtype)
