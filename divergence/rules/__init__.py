"""The rules that keep latent vectors small, by name: each module here with a rule class is one.

A rule's class is a NamedTuple of its parameters, with their bounds (as `annotated_types`) and
defaults. Its methods are the hooks (`hooks.py`) that it overrides. To add a rule,
add a file here and a test.
"""

import math
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_args, get_type_hints

from annotated_types import Ge, Gt, Lt

from divergence.errors import InputError

Rule = Any
"""An instance of one of the classes in RULES."""


def _discovered() -> Iterator[tuple[str, type]]:
    for module in iter_modules(__path__):
        if module.name != "hooks":
            content = vars(import_module(f"{__name__}.{module.name}"))
            classes = [c for c in content.values() if hasattr(c, "_fields")]
            (rule,) = (c for c in classes if c.__module__ == f"{__name__}.{module.name}")
            yield module.name, rule


RULES: dict[str, type] = dict(_discovered())


def make_rule(name: str, **parameters: float) -> Rule:
    """The rule of this name; `InputError` for an unknown name, or a missing or invalid value."""
    if name not in RULES:
        raise InputError(f"rule {name!r} is unknown; the rules are {', '.join(RULES)}")
    kind: Any = RULES[name]
    unknown = sorted(set(parameters) - set(kind._fields))
    missing = sorted(set(kind._fields) - set(kind._field_defaults) - set(parameters))
    if unknown or missing:
        takes = ", ".join(kind._fields) or "no parameters"
        fault = f"has no parameter {unknown[0]}" if unknown else f"needs {missing[0]}"
        raise InputError(f"rule {name} {fault}; it takes {takes}")
    rule = kind(**parameters)
    for field, bounds in _bounds(kind):
        _check(name, field, getattr(rule, field), bounds)
    floor, ceiling = (getattr(rule, name, 1.0) for name in ("mu_floor", "mu_ceiling"))
    if floor > ceiling:
        raise InputError(
            f"rule {name}: mu_floor <= mu_ceiling must hold, but got "
            f"(mu_floor={floor}, mu_ceiling={ceiling})"
        )
    return kind(*(v if isinstance(v, bool) else float(v) for v in rule))


@cache
def _bounds(kind: type) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """The bounds of each parameter of a rule's class."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((field, get_args(hint)[1:]) for field, hint in hints.items())


def _check(rule: str, field: str, value: float, bounds: tuple[Any, ...]) -> None:
    if math.isinf(value):
        raise InputError(f"rule {rule}: {field} must be finite, but is {value}")
    for bound in bounds:
        wrong = (
            (isinstance(bound, Gt) and not value > bound.gt and f"> {bound.gt}")
            or (isinstance(bound, Ge) and not value >= bound.ge and f">= {bound.ge}")
            or (isinstance(bound, Lt) and not value < bound.lt and f"< {bound.lt}")
        )
        if wrong:
            raise InputError(f"rule {rule}: {field} must be {wrong}, but is {value}")
