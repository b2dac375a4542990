"""Ranges of hyper-parameters, and their values at given quantiles."""

import math
from typing import Annotated, Any

from pydantic import Field, model_validator

from orchestrator.validation.errors import mistake, read_as, short, validate_with
from orchestrator.validation.strict import Items, Strict

LARGEST = 1e30
"""The largest value of a range. Below it, no draw and no product with another overflows."""
Value = Annotated[float, Field(ge=0, le=LARGEST)]


class Interval(Strict):
    """All values from `low` to `high`: log-uniform, or uniform with `log: false`."""

    low: Value
    """The smallest value."""
    high: Value
    """The largest value."""
    log: bool = True
    """Whether values are uniform on a log scale."""

    @model_validator(mode="after")
    def _ordered(self) -> "Interval":
        given = f"(low={self.low:g}, high={self.high:g})"
        if self.low > self.high:
            raise ValueError(f"low <= high must hold, but got {given}")
        if self.log and self.low <= 0:
            raise ValueError(f"low > 0 must hold on a log scale, but got {given}: set log: false")
        if self.log and self.low < 1 / LARGEST:
            raise ValueError(f"low >= {1 / LARGEST:g} must hold on a log scale, but got {given}")
        return self


class Choice(Strict):
    """Only these values. A single number in the config is a choice of one."""

    choice: Items[Value] = Field(min_length=1)
    """The values."""

    @model_validator(mode="after")
    def _distinct(self) -> "Choice":
        if len(set(self.choice)) < len(self.choice):
            raise ValueError(f"choices must differ, but got {short(self.choice)}")
        return self


def read_range(data: object) -> Interval | Choice:
    """A range as a config may write it."""
    if isinstance(data, Interval | Choice):
        return data
    if isinstance(data, int | float) and not isinstance(data, bool):
        if not 0 <= data < math.inf:
            raise mistake("must be >= 0 and finite", data)
        if data > LARGEST:
            raise mistake(f"must be <= {LARGEST:g}", data)
        return Choice(choice=(float(data),))
    if not isinstance(data, dict):
        raise mistake("must be a number, {low, high, log: true} or {choice: [...]}", data)
    return read_as(Choice, data) if "choice" in data else read_as(Interval, data)


Range = Annotated[Interval | Choice, validate_with(read_range)]


class Multiples(Strict):
    """A bound `rho`, given as multiples `k` of the paper's rho0, which depends on N."""

    k: Range
    """Multiples of rho0."""


def _read_bound(data: object) -> Interval | Choice | Multiples:
    if isinstance(data, Multiples) or (isinstance(data, dict) and "k" in data):
        return read_as(Multiples, data)
    return read_range(data)


Bound = Annotated[Interval | Choice | Multiples, validate_with(_read_bound)]


def absolute(bound: Interval | Choice | Multiples, rho0: float) -> Interval | Choice:
    """The range of rho itself, with multiples of rho0 multiplied out."""
    if not isinstance(bound, Multiples):
        return bound
    if isinstance(bound.k, Choice):
        return Choice(choice=tuple(k * rho0 for k in bound.k.choice))
    return Interval(low=bound.k.low * rho0, high=bound.k.high * rho0, log=bound.k.log)


def lowest(span: Interval | Choice) -> float:
    """The smallest value of the range."""
    return min(span.choice) if isinstance(span, Choice) else span.low


def ends(span: Interval | Choice) -> tuple[float, float]:
    """The smallest and the largest value of the range."""
    return (
        (min(span.choice), max(span.choice)) if isinstance(span, Choice) else (span.low, span.high)
    )


def value_at(span: Interval | Choice, quantile: float) -> float:
    """The value at `quantile` in [0, 1]: low at 0, high at 1. Choices are taken in ascending order.

    Values of an interval are rounded to six digits. They are short to read, and the same on
    machines whose `pow` differs in the last bit.
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
    """`value` if the range has it, else the nearest value of the range."""
    if isinstance(span, Choice):
        return min(sorted(span.choice), key=lambda choice: abs(choice - value))
    return min(max(value, span.low), span.high)


def at_most(span: Interval | Choice, value: float) -> float:
    """The largest value of the range that is <= `value`, else the smallest of all."""
    if isinstance(span, Choice):
        return max((c for c in span.choice if c <= value), default=min(span.choice))
    return min(max(value, span.low), span.high)


def narrowed(span: Interval | Choice, centre: float, factor: float) -> Interval | Choice:
    """The part of the range within a `factor` of `centre`.

    Of choices, it is the one nearest to `centre` and its neighbours.
    """
    centre = nearest_value(span, centre)
    if isinstance(span, Choice):
        ascending = sorted(span.choice)
        at = ascending.index(centre)
        return Choice(choice=tuple(ascending[max(at - 1, 0) : at + 2]))
    low, high = max(span.low, centre / factor), min(span.high, centre * factor)
    return Interval(low=low, high=high, log=span.log)


def grid_points(span: Interval | Choice | Multiples, points: int) -> int:
    """The number of grid points of a range: all choices, or `points` along an interval."""
    if isinstance(span, Multiples):
        return grid_points(span.k, points)
    if isinstance(span, Choice):
        return len(span.choice)
    return 1 if span.low == span.high else points


def positive(span: Any) -> Any:
    """Validate that every value of the range is above zero."""
    inner = span.k if isinstance(span, Multiples) else span
    if not lowest(inner) > 0:
        raise mistake("every value must be > 0", lowest(inner))
    return span
