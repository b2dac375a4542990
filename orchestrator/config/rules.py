"""The configs of the rules: fields, bounds and defaults, generated from `divergence.rules`.

Every number may be fixed, or searched in a range. `rho`, `lam` and `dual_step` take their ranges
from `search.ranges` unless the arm sets them here. A rule of the user's own has the name
`module:Class`; its config records a hash of its code. Where the user has not allowed this code to
run (a run folder is looked at), its parameters stay as they are written, and nothing is imported.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, Self, get_args, get_type_hints

from annotated_types import Gt, Le
from pydantic import (
    AfterValidator,
    ConfigDict,
    SerializeAsAny,
    TypeAdapter,
    create_model,
    model_validator,
)

from divergence import own_code, rules
from divergence.errors import InputError
from orchestrator.config.ranges import (
    LARGEST,
    Bound,
    Choice,
    Interval,
    Range,
    ends,
    lowest,
    positive,
    read_range,
)
from orchestrator.validation.errors import mistake, one_of, read_as, validate_with
from orchestrator.validation.strict import Strict
from trainer.setting import PARAMETERS, Setting

TAKEN = ("eta0", "alpha", "beta", "name", "code")
"""What a parameter of the user's own rule cannot be called."""


class Rule(Strict):
    """A rule and its parameters. A searched parameter that is None uses `search.ranges`."""

    name: str

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        floor, ceiling = getattr(self, "mu_floor", 1.0), getattr(self, "mu_ceiling", 1.0)
        floor = ends(floor)[1] if isinstance(floor, Interval | Choice) else floor
        ceiling = ends(ceiling)[0] if isinstance(ceiling, Interval | Choice) else ceiling
        if floor > ceiling:
            raise ValueError(
                "mu_floor <= mu_ceiling must hold, but got "
                f"(mu_floor={floor:g}, mu_ceiling={ceiling:g})"
            )
        return self


class UnseenRule(Rule):
    """A rule of the user's own whose code must not run here."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _floor_below_ceiling(self) -> Self:
        return self  # what the parameters mean is not known here


def _as_config(name: str, kind: Any) -> type[Rule]:
    """Make the config class of a rule."""
    fields: dict[str, Any] = {"name": (Literal[name], name)}
    hints = get_type_hints(kind, include_extras=True)
    for parameter in rules.parameters_of(kind):
        field, default = parameter.name, parameter.default
        if field in PARAMETERS:
            span = None if default is None else read_range(default)
            fields[field] = (_range_of(field, hints[field]) | None, span)
        else:
            hint = hints[field] if parameter.kind is bool else _number(hints[field], parameter)
            fields[field] = (hint, ... if default is None else default)
    return create_model(kind.__name__, __base__=Rule, __doc__=kind.__doc__, **fields)


def _number(hint: Any, parameter: rules.Parameter) -> Any:
    """A number within the parameter's bounds, or a range of such numbers."""
    fixed: TypeAdapter[Any] = TypeAdapter(
        Annotated[hint, Le(LARGEST)], config=ConfigDict(strict=True, allow_inf_nan=False)
    )

    def read(data: object) -> object:
        if parameter.name == "mu0" or not isinstance(data, dict | Interval | Choice):
            return fixed.validate_python(data)
        span = read_range(data)
        wrong = next(filter(None, (rules.out_of_bounds(parameter, end) for end in ends(span))), "")
        if wrong:
            raise mistake(f"every value {wrong}")
        return span

    return Annotated[float | Interval | Choice, validate_with(read)]


def _range_of(field: str, hint: Any) -> Any:
    span = Bound if field == "rho" else Range
    above_zero = any(isinstance(bound, Gt) for bound in get_args(hint)[1:])
    return Annotated[span, AfterValidator(positive)] if above_zero else span


RULES: dict[str, type[Rule]] = {name: _as_config(name, kind) for name, kind in rules.RULES.items()}
_BUILT_IN = one_of(RULES, "name")


def _read_rule(data: Any) -> object:
    """A rule of the tree, or of the user's own."""
    name: Any = data.get("name") if isinstance(data, dict) else data
    if isinstance(data, Rule):
        return data
    if not own_code.is_reference(name):
        return _BUILT_IN.func(data, None)  # type: ignore[call-arg,arg-type]
    fields = data if isinstance(data, dict) else {"name": name}
    if not own_code.is_allowed(name):
        return read_as(UnseenRule, fields)
    try:
        rules.rule_class(name)
        return read_as(_own_config(name, own_code.code_hash(name)), fields)
    except InputError as error:
        raise mistake(str(error)) from None


AnyRule = Annotated[SerializeAsAny[Rule], validate_with(_read_rule)]


@cache
def _own_config(name: str, code: str) -> type[Rule]:
    """The config class of a rule of the user's own, with this hash of its code."""

    def check(recorded: str) -> str:
        if recorded != code:
            raise mistake(
                f"the code of {name} has changed since then: it must hash to {recorded[:12]}..., "
                f"but is {code[:12]}...: restore it, or start another run"
            )
        return recorded

    kind = rules.rule_class(name)
    for field in TAKEN:
        if field in kind._fields:
            raise InputError(f"{name}: a parameter cannot be called {field}")
    hint = Annotated[str, AfterValidator(check)]
    model = _as_config(name, kind)
    return create_model(kind.__name__, __base__=model, __doc__=kind.__doc__, code=(hint, code))


def require_code(rule: Rule) -> None:
    """InputError where the rule is the user's own and its code may not run."""
    if isinstance(rule, UnseenRule):
        rules.rule_class(rule.name)


def searched(rule: Rule) -> tuple[str, ...]:
    """The names of the rule's parameters that the search draws, those of every search first."""
    fields = type(rule).model_fields
    known = [name for name in PARAMETERS if name in fields]
    return (*known, *(n for n in fields if n not in known and _is_range(getattr(rule, n))))


def _is_range(value: object) -> bool:
    return isinstance(value, Interval | Choice)


def kernel_rule(rule: Rule, setting: Setting) -> rules.Rule:
    """The rule in the form that the kernel takes, for an instance with this setting."""
    return kernel_rules(rule, [setting])[0]


def kernel_rules(rule: Rule, settings: Sequence[Setting]) -> list[rules.Rule]:
    """The same for many settings."""
    fixed = set(type(rule).model_fields) - {"name", "code"}
    values = {field: getattr(rule, field) for field in fixed}
    names, made = searched(rule), []
    for setting in settings:
        for name in names:
            values[name] = setting.value(name)
            if values[name] is None:
                raise InputError(f"rule {rule.name}: this setting has no {name}")
        made.append(rules.make_rule(rule.name, **values))
    return made


def any_kernel_rule(rule: Rule) -> rules.Rule:
    """The rule with arbitrary parameters, to compile kernels for."""
    others = {n: lowest(getattr(rule, n)) for n in searched(rule) if n not in PARAMETERS}
    return kernel_rule(rule, Setting(1.0, 1.0, 0.5, rho=1.0, lam=0.1, dual_step=1.0, others=others))


def initial_mu(rule: Rule) -> float:
    """The multiplier mu that a new vector starts with under this rule."""
    mu0 = getattr(rule, "mu0", 0.0)
    return float(mu0) if isinstance(mu0, int | float) else 0.0
