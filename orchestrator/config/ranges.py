"""Ranges of a hyper-parameter, and the value that stands at a quantile of one."""

import math
from typing import Annotated, Any

from pydantic import Field, model_validator

from orchestrator.validation.errors import instead, mistake, read_as
from orchestrator.validation.strict import Items, Strict


class Interval(Strict):
    """All values from `low` to `high`, evenly on a log scale unless `log: false`."""

    low: float = Field(ge=0)
    high: float
    log: bool = True

    @model_validator(mode="after")
    def _ordered(self) -> "Interval":
        given = f"(low={self.low:g}, high={self.high:g})"
        if self.low > self.high:
            raise ValueError(f"low <= high must hold, but got {given}")
        if self.log and self.low <= 0:
            raise ValueError(f"low > 0 must hold on a log scale, but got {given}; or log: false")
        return self


class Choice(Strict):
    """These values only. A single number in the config is a choice of one."""

    choice: Items[Annotated[float, Field(ge=0)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _distinct(self) -> "Choice":
        if len(set(self.choice)) < len(self.choice):
            raise ValueError(f"choices must differ, but got {list(self.choice)}")
        return self


def _read_range(data: object) -> Interval | Choice:
    if isinstance(data, Interval | Choice):
        return data
    if isinstance(data, int | float) and not isinstance(data, bool):
        if not 0 <= data < math.inf:
            raise mistake("must be >= 0 and finite", data)
        return Choice(choice=(float(data),))
    if not isinstance(data, dict):
        raise mistake("must be a number, {low, high, log: true} or {choice: [...]}", data)
    return read_as(Choice, data) if "choice" in data else read_as(Interval, data)


Range = Annotated[Interval | Choice, instead(_read_range)]


class Multiples(Strict):
    """A bound `rho` given as multiples `k` of the paper's rho0, which follows from N."""

    k: Range


def _read_bound(data: object) -> Interval | Choice | Multiples:
    if isinstance(data, Multiples) or (isinstance(data, dict) and "k" in data):
        return read_as(Multiples, data)
    return _read_range(data)


Bound = Annotated[Interval | Choice | Multiples, instead(_read_bound)]


def absolute(bound: Interval | Choice | Multiples, rho0: float) -> Interval | Choice:
    """The bound's range in rho itself."""
    if not isinstance(bound, Multiples):
        return bound
    if isinstance(bound.k, Choice):
        return Choice(choice=tuple(k * rho0 for k in bound.k.choice))
    return Interval(low=bound.k.low * rho0, high=bound.k.high * rho0, log=bound.k.log)


def lowest(span: Interval | Choice) -> float:
    """The least value of the range."""
    return min(span.choice) if isinstance(span, Choice) else span.low


def value_at(span: Interval | Choice, quantile: float) -> float:
    """The value at `quantile` in [0, 1]: low at 0, high at 1, for choices in ascending order.

    Values of an interval are rounded to six digits: short to read, and the same on machines whose
    `pow` differs in the last bit.
    """
    if isinstance(span, Choice):
        ascending = sorted(span.choice)
        return ascending[min(int(quantile * len(ascending)), len(ascending) - 1)]
    if span.log:
        value = span.low * (span.high / span.low) ** quantile
    else:
        value = span.low + (span.high - span.low) * quantile
    return min(max(float(f"{value:.6g}"), span.low), span.high)


def nearest_value(span: Interval | Choice, value: float) -> float:
    """`value`, or the value of the range that is nearest to it."""
    if isinstance(span, Choice):
        return min(sorted(span.choice), key=lambda choice: abs(choice - value))
    return min(max(value, span.low), span.high)


def at_most(span: Interval | Choice, value: float) -> float:
    """The greatest value of the range that does not exceed `value`, else the least it has."""
    if isinstance(span, Choice):
        return max((c for c in span.choice if c <= value), default=min(span.choice))
    return min(max(value, span.low), span.high)


def narrowed(span: Interval | Choice, centre: float, factor: float) -> Interval | Choice:
    """The part of the range within a `factor` of `centre`; of choices, it and its neighbours."""
    centre = nearest_value(span, centre)
    if isinstance(span, Choice):
        ascending = sorted(span.choice)
        at = ascending.index(centre)
        return Choice(choice=tuple(ascending[max(at - 1, 0) : at + 2]))
    low, high = max(span.low, centre / factor), min(span.high, centre * factor)
    return Interval(low=low, high=high, log=span.log)


def points_of(span: Interval | Choice | Multiples, points: int) -> int:
    """How many grid points the range is worth: its choices, or `points` along an interval."""
    if isinstance(span, Multiples):
        return points_of(span.k, points)
    if isinstance(span, Choice):
        return len(span.choice)
    return 1 if span.low == span.high else points


def positive(span: Any) -> Any:
    """Validates that no value of the range is zero."""
    inner = span.k if isinstance(span, Multiples) else span
    if not lowest(inner) > 0:
        raise mistake("every value must be > 0", lowest(inner))
    return span
