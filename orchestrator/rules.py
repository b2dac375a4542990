"""The rules as a config names them, with the parameters of each.

A parameter that is also searched (`rho`, `lam`, `dual_step`) takes its range from `search.ranges`
unless the arm gives it here, as a number (fixed) or as a range of its own.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from orchestrator.mistakes import one_of
from orchestrator.ranges import Bound, Range, positive
from orchestrator.strict import Strict
from trainer.setting import PARAMETERS, Setting

PositiveRange = Annotated[Range, AfterValidator(positive)]
PositiveBound = Annotated[Bound, AfterValidator(positive)]
Positive = Annotated[float, Field(gt=0)]


class NoRule(Strict):
    """Nothing holds the vectors."""

    name: Literal["none"] = "none"


class L2(Strict):
    """The paper's production baseline: lam/2·‖θ‖² in the loss."""

    name: Literal["l2"] = "l2"
    lam: Range | None = None


class _Priced(Strict):
    """A price `mu` per vector on its mean square above `rho`."""

    name: str
    rho: PositiveBound | None = None
    mu0: Positive = 0.01
    mu_floor: float = Field(default=0.01, ge=0)
    mu_ceiling: Positive = 1e6
    implicit: bool = True


class Naive(_Priced):
    """The price is multiplied or divided by a constant."""

    name: Literal["naive"] = "naive"
    factor: float = Field(default=1.1, gt=1)


class Euclidean(_Priced):
    """Dual ascent by addition."""

    name: Literal["euclidean"] = "euclidean"
    dual_step: PositiveRange | None = None


class Entropic(_Priced):
    """Dual ascent by multiplication: the paper's rule."""

    name: Literal["entropic"] = "entropic"
    dual_step: PositiveRange | None = None


class Projection(Strict):
    """Vectors with a mean square above `rho` are scaled back to it."""

    name: Literal["projection"] = "projection"
    rho: PositiveBound | None = None


class GradientClip(Strict):
    """Gradients are clipped at `limit`."""

    name: Literal["gradient_clip"] = "gradient_clip"
    limit: Positive = 1.0


class MaxNorm(Strict):
    """Entries are clamped at `limit`."""

    name: Literal["max_norm"] = "max_norm"
    limit: Positive = 2.0


class Clippy(Strict):
    """An update is scaled down to at most `relative`·|v| + `absolute` per entry."""

    name: Literal["clippy"] = "clippy"
    relative: Positive = 0.5
    absolute: Positive = 0.05


class Decay(Strict):
    """Decoupled weight decay."""

    name: Literal["decay"] = "decay"
    rate: float = Field(default=0.01, ge=0, lt=1)


Rule = (
    NoRule
    | L2
    | Naive
    | Euclidean
    | Entropic
    | Projection
    | GradientClip
    | MaxNorm
    | Clippy
    | Decay
)
RULES: dict[str, type[Strict]] = {
    str(rule.model_fields["name"].default): rule for rule in Rule.__args__
}
AnyRule = Annotated[Rule, one_of(RULES, "name")]


def searched(rule: Rule) -> tuple[str, ...]:
    """The names of the rule's parameters that are part of a setting."""
    return tuple(name for name in PARAMETERS if name in type(rule).model_fields)


def rule_parameters(rule: Rule, setting: Setting) -> dict[str, float | bool]:
    """All of the rule's parameters, by name, for an instance with this setting."""
    named = {field: getattr(rule, field) for field in type(rule).model_fields if field != "name"}
    return named | {name: getattr(setting, name) for name in searched(rule)}
