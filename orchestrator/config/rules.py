"""The configs of the rules: fields, bounds and defaults, generated from `divergence.rules`.

A parameter that is also searched (`rho`, `lam`, `dual_step`) takes its range from `search.ranges`
unless the arm sets it here, to a number (fixed) or to a range of its own.
"""

from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

from annotated_types import Gt, Le
from pydantic import AfterValidator, SerializeAsAny, create_model, model_validator

from divergence import rules
from orchestrator.config.ranges import LARGEST, Bound, Range, positive
from orchestrator.validation.errors import one_of
from orchestrator.validation.strict import Strict
from trainer.setting import PARAMETERS, Setting


class Rule(Strict):
    """A rule and its parameters. A searched parameter that is None uses `search.ranges`."""

    name: str

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        floor, ceiling = (getattr(self, name, 1.0) for name in ("mu_floor", "mu_ceiling"))
        if floor > ceiling:
            raise ValueError(
                "mu_floor <= mu_ceiling must hold, but got "
                f"(mu_floor={floor:g}, mu_ceiling={ceiling:g})"
            )
        return self


def _as_config(name: str, kind: Any) -> type[Rule]:
    """Make the config class of a rule."""
    fields: dict[str, Any] = {"name": (Literal[name], name)}
    for field, hint in get_type_hints(kind, include_extras=True).items():
        if field in PARAMETERS:
            fields[field] = (_range_of(field, hint) | None, None)
        else:
            if get_args(hint)[:1] == (float,):
                hint = Annotated[hint, Le(LARGEST)]
            fields[field] = (hint, kind._field_defaults.get(field, ...))
    return create_model(kind.__name__, __base__=Rule, __doc__=kind.__doc__, **fields)


def _range_of(field: str, hint: Any) -> Any:
    span = Bound if field == "rho" else Range
    above_zero = any(isinstance(bound, Gt) for bound in get_args(hint)[1:])
    return Annotated[span, AfterValidator(positive)] if above_zero else span


RULES: dict[str, type[Rule]] = {name: _as_config(name, kind) for name, kind in rules.RULES.items()}
AnyRule = Annotated[SerializeAsAny[Rule], one_of(RULES, "name")]


def searched(rule: Rule) -> tuple[str, ...]:
    """The names of the rule's parameters that the search draws."""
    return tuple(name for name in PARAMETERS if name in type(rule).model_fields)


def kernel_rule(rule: Rule, setting: Setting) -> rules.Rule:
    """The rule in the form that the kernel takes, for an instance with this setting."""
    named = {field: getattr(rule, field) for field in type(rule).model_fields if field != "name"}
    return rules.make_rule(
        rule.name, **named | {name: getattr(setting, name) for name in searched(rule)}
    )


def initial_mu(rule: Rule) -> float:
    """The multiplier mu that a new vector starts with under this rule."""
    return float(getattr(rule, "mu0", 0.0))
