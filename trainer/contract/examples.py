"""Parameters to try a rule with: from the bounds and defaults that its class declares."""

import math
from typing import Any

import numpy as np
from annotated_types import Ge, Gt, Le, Lt

from divergence.rules import Parameter, parameters_of, rule_class


def example_parameters(name: str, rng: np.random.Generator) -> dict[str, Any]:
    """A value for each parameter of a rule, mostly within a factor of ten of its default."""
    return {p.name: _example(p, rng) for p in parameters_of(rule_class(name))}


def required_parameters(name: str) -> dict[str, Any]:
    """A value for each parameter that has no default."""
    rng = np.random.default_rng(0)
    return {p.name: _example(p, rng) for p in parameters_of(rule_class(name)) if p.default is None}


def _example(parameter: Parameter, rng: np.random.Generator) -> float | bool:
    if parameter.kind is bool:
        return bool(rng.random() < 0.5)
    low = max((_value(b) for b in parameter.bounds if isinstance(b, Gt | Ge)), default=0.0)
    high = min((_value(b) for b in parameter.bounds if isinstance(b, Lt | Le)), default=math.inf)
    usual = None if parameter.default is None else parameter.default - low
    centre = usual if usual is not None and usual > 0 else min(0.1, (high - low) / 10)
    drawn = low + centre * 10 ** rng.uniform(-1, 1)
    return float(min(drawn, high - 0.01 * (high - low))) if high < math.inf else float(drawn)


def _value(bound: Any) -> float:
    return float(next(getattr(bound, at) for at in ("gt", "ge", "lt", "le") if hasattr(bound, at)))
