"""From values as they are in the logs to values as the model knows them, one at a time.

A published version carries the source's mapping, so that requests hold raw values: an age of 37,
not the bin [35,45). Arrow, which maps files, takes 50 microseconds for one value: hence a second
version of its operations here. A test holds them together.
"""

import math
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import Field

from divergence.errors import InputError
from orchestrator.sources.files.mapping.numbers import (
    NUMBER,
    bin_names,
    binned,
    number_text,
    power_name,
    power_of,
)
from orchestrator.sources.files.reading import Column, Name, Reading
from orchestrator.validation.errors import short
from orchestrator.validation.strict import Items, Strict
from trainer.features import Feature, FeatureSpec

MOST_KEPT = 50_000
"""How many raw values of a feature are remembered."""
LONGEST_KEPT = 100
"""Characters of a raw value that is remembered: the memory that requests take is bounded."""
LARGEST = 1e15
UNCHANGED = Column()


IS_NUMBER = re.compile(NUMBER.strip("^$").removeprefix("(?i)^"), re.ASCII | re.IGNORECASE)

IS_BIN = re.compile(r"(<|>=)[^\s,]+|\[([^\s,]+),([^\s,]+)\)")


class RawMapping(Strict):
    """How the features are made from raw values: `columns` and `missing` of the source."""

    columns: dict[Name, Column] = Field(default_factory=dict)
    missing: Items[str] = ()

    def of(self, feature: Feature) -> "RawFeature":
        """The mapping of one feature."""
        return RawFeature(feature, self.columns.get(feature.name, UNCHANGED), self.missing)


def raw_mapping(reading: Reading, spec: FeatureSpec) -> RawMapping | None:
    """The part of a source's config that requests need; None if values are used as they are."""
    names = {name for f in spec.features for name in (f.name, f.weights) if name is not None}
    columns = {n: rule for n, rule in reading.columns.items() if n in names and rule != UNCHANGED}
    if not columns and not reading.missing:
        return None
    return RawMapping(columns=columns, missing=reading.missing)


class RawFeature:
    """Maps raw texts of one feature, and remembers what it has mapped."""

    def __init__(self, feature: Feature, rule: Column, missing: Sequence[str]) -> None:
        self.name, self.multi = feature.name, feature.multi
        self.column = rule.column if rule.column != feature.name else None
        """Its name in the logs, if that is another."""
        self._rule, self._missing = rule, missing
        operations = (rule.bins, rule.log, rule.round, rule.slice)
        self.is_plain = not missing and all(given is None for given in operations)
        """Whether a single value is used as it is."""
        self._known: dict[str, str] = {}

    def value(self, text: str) -> str:
        """The model's value. A bin is mapped already and stays as it is.

        InputError if it is neither where a number is expected: training sets such a row aside.
        """
        if self.is_plain:
            return text
        found = self._known.get(text)
        if found is None:
            found = self._mapped(text)
            if len(text) <= LONGEST_KEPT:
                if len(self._known) >= MOST_KEPT:
                    self._known.clear()
                self._known[text] = found
        return found

    def values(self, text: str) -> list[str] | None:
        """The values in a text that separates them; None if this feature has no separator."""
        if self._rule.split is None:
            return None
        return [] if not text or text in self._missing else text.split(self._rule.split)

    @property
    def expects(self) -> str:
        """What a request gives for this feature, for people."""
        name = f" (as {self.name} or {self.column})" if self.column else ""
        return f"{self._kind()}, or null if unknown{name}"

    def example(self, values: Sequence[str]) -> Any:
        """A raw value that becomes what the model knows: the first of `values`, or the first two.

        As it is if there is no way back from it; None if there are no values.
        """
        if not values:
            return None
        rule, first = self._rule, values[0]
        if self.multi:
            return list(values[:2]) if rule.split is None else rule.split.join(values[:2])
        if rule.slice is not None:
            raw = "-" * rule.slice[0] + first
            return raw if self.value(raw) == first else first
        if self.is_plain or (rule.bins is None and rule.log is None and rule.round is None):
            return first
        fits = (n for n in _numbers_in(first) if self.value(number_text(n)) == first)
        return next((int(n) if n.is_integer() else n for n in fits), first)

    def _mapped(self, text: str) -> str:
        rule = self._rule
        if text in self._missing:
            return ""
        if rule.slice is not None:
            return text[rule.slice[0] : rule.slice[1]]
        if rule.bins is None and rule.log is None and rule.round is None:
            return text
        written = text.strip()
        if not IS_NUMBER.fullmatch(written):
            if written and not IS_BIN.fullmatch(written):
                raise InputError(f"must be {self._kind()}, but is {short(text)}")
            return text if written else ""
        number = float(written)
        if not abs(number) < LARGEST:  # rare: NaN, infinite or huge
            return str(binned(np.array([number]), rule)[0].as_py() or "")
        return binned_number(number, rule)

    def _kind(self) -> str:
        rule = self._rule
        if rule.bins is not None:
            return f"a number, put into {', '.join(bin_names(rule.bins))}"
        if rule.log is not None:
            return f"a number, put into bins that grow by a factor of {rule.log:g}"
        if rule.round is not None:
            return f"a number, rounded to a multiple of {rule.round:g}"
        if rule.slice is not None:
            start, stop = rule.slice
            return f"a text, of which the characters from {start} up to {stop} are used"
        if not self.multi:
            return "a text, a number, true or false"
        lists = "a list of values or an object of values and weights"
        return (
            lists
            if rule.split is None
            else f"a text with values separated by {rule.split!r}, {lists}"
        )


def _numbers_in(name: str) -> list[float]:
    """Numbers that may lie in the bin of this name: its edges and beside them."""
    edges = [
        float(edge) for edge in re.findall(r"[^\s,<>=\[)]+", name) if IS_NUMBER.fullmatch(edge)
    ]
    near = [n for edge in edges for n in (edge, edge - 1)]
    return [*near, sum(edges) / max(len(edges), 1)]


def binned_number(number: float, rule: Column) -> str:
    """The name of the bin of a number that is not huge."""
    if rule.bins is not None:
        return bin_names(rule.bins)[bisect_right(rule.bins, number)]
    if rule.log is None:
        step = rule.round or 1.0
        return number_text((round(number / step) + 0.0) * step)
    if number <= 0:
        return power_name(-math.inf if number == 0 else math.inf, rule.log)
    power = float(math.floor(math.log(number) / math.log(rule.log)))
    power += power_of(rule.log, power + 1) <= number  # the logarithm may miss by one at the edges
    power -= power_of(rule.log, power) > number
    return power_name(power, rule.log)


def raw_features(mapping: RawMapping | None, features: Sequence[Feature]) -> dict[str, RawFeature]:
    """The mapping of each of these features, by its name."""
    known = mapping or RawMapping()
    return {feature.name: known.of(feature) for feature in features}
