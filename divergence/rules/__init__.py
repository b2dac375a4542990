"""The rules that keep latent vectors small, by name: each module here with a rule class is one.

A rule's class is a NamedTuple of its parameters, with their bounds (as `annotated_types`) and
defaults. Its methods are the hooks (`hooks.py`) that it overrides, and `oracle`, its step in plain
numpy. To add a rule, add a file here: `trainer/contract` tests it. A rule of the user's own has the
name `module:Class` (`divergence/own_code.py`).
"""

import math
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from typing import Any, NamedTuple, get_args, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from divergence.errors import InputError
from divergence.own_code import is_reference, load_rule_class
from divergence.rules.hooks import HOOKS

Rule = Any
"""An instance of one of the classes in RULES, or of the user's own."""


class Parameter(NamedTuple):
    """A parameter of a rule: its type (float or bool), its bounds and its default, if any."""

    name: str
    kind: type
    bounds: tuple[Any, ...]
    default: float | bool | None


def _discovered() -> Iterator[tuple[str, type]]:
    for module in iter_modules(__path__):
        if module.name != "hooks":
            content = vars(import_module(f"{__name__}.{module.name}"))
            classes = [c for c in content.values() if hasattr(c, "_fields")]
            (rule,) = (c for c in classes if c.__module__ == f"{__name__}.{module.name}")
            yield module.name, rule


RULES: dict[str, type] = dict(_discovered())


def rule_class(name: str) -> Any:
    """The class of the rule of this name. InputError for an unknown name or an unusable class."""
    if name in RULES:
        return RULES[name]
    if not is_reference(name):
        raise InputError(
            f"rule {name!r} is unknown; the rules are {', '.join(RULES)}, or module:Class for your "
            "own"
        )
    kind = load_rule_class(name)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")):
        raise InputError(f"{name}: must be a class Name(NamedTuple)")
    parameters_of(kind)
    for method, value in vars(kind).items():
        if method in HOOKS:
            _check_arguments(f"{name}: {method}", value, HOOKS[method])
        elif callable(value) and method != "oracle" and not method.startswith("_"):
            raise InputError(
                f"{name}: {method} is not a hook; the hooks are {', '.join(HOOKS)}, and oracle"
            )
    return kind


def _check_arguments(where: str, method: Any, wanted: tuple[str, ...]) -> None:
    if tuple(signature(method).parameters) != wanted:
        raise InputError(f"{where}: its arguments must be named ({', '.join(wanted)})")


def make_rule(name: str, **parameters: float) -> Rule:
    """The rule of this name; `InputError` for an unknown name, or a missing or invalid value."""
    kind = rule_class(name)
    unknown = sorted(set(parameters) - set(kind._fields))
    missing = sorted(set(kind._fields) - set(kind._field_defaults) - set(parameters))
    if unknown or missing:
        takes = ", ".join(kind._fields) or "no parameters"
        fault = f"has no parameter {unknown[0]}" if unknown else f"needs {missing[0]}"
        raise InputError(f"rule {name} {fault}; it takes {takes}")
    rule = kind(**parameters)
    for field in parameters_of(kind):
        wrong = out_of_bounds(field, getattr(rule, field.name))
        if wrong:
            raise InputError(f"rule {name}: {field.name} {wrong}")
    floor, ceiling = (getattr(rule, name, 1.0) for name in ("mu_floor", "mu_ceiling"))
    if floor > ceiling:
        raise InputError(
            f"rule {name}: mu_floor <= mu_ceiling must hold, but got "
            f"(mu_floor={floor}, mu_ceiling={ceiling})"
        )
    return kind(*(v if isinstance(v, bool) else float(v) for v in rule))


@cache
def parameters_of(kind: Any) -> tuple[Parameter, ...]:
    """The parameters of a rule's class."""
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        plain, *bounds = get_args(hint) or (hint,)
        if plain not in (float, int, bool):
            raise InputError(f"{kind.__name__}.{name}: must be a float or a bool, but is {plain}")
        default = kind._field_defaults.get(name)
        found.append(Parameter(name, bool if plain is bool else float, tuple(bounds), default))
    return tuple(found)


def out_of_bounds(parameter: Parameter, value: float) -> str:
    """What is wrong with a value: "must be > 0, but is -1"; an empty text if nothing is."""
    if math.isinf(value):
        return f"must be finite, but is {value}"
    for bound in parameter.bounds:
        wrong = (
            (isinstance(bound, Gt) and not value > bound.gt and f"> {bound.gt}")
            or (isinstance(bound, Ge) and not value >= bound.ge and f">= {bound.ge}")
            or (isinstance(bound, Lt) and not value < bound.lt and f"< {bound.lt}")
            or (isinstance(bound, Le) and not value <= bound.le and f"<= {bound.le}")
        )
        if wrong:
            return f"must be {wrong}, but is {value}"
    return ""
