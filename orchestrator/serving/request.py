"""Decode the users and ads of requests, and check them against the features of the model.

Values are raw, as in the logs, and mapped as in training: 30.0 is "30", and null, NaN and "" are
the missing value, which has a vector of its own. A request must name every feature, so that a
forgotten or misspelt one does not count as a missing value.
"""

import math
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from divergence.errors import InputError
from orchestrator.serving.limits import DEFAULT, Limits
from orchestrator.sources.files.mapping.raw import RawFeature, RawMapping, raw_features
from orchestrator.validation.errors import did_you_mean, short
from trainer.chunk import MISSING
from trainer.features import Feature

MAX_MISTAKES = 20
"""How many mistakes of one request are reported."""

MAX_LINE = 500
"""Characters of a mistake: it may quote a long key."""

Bag = list[tuple[str, float]]
"""The values of a feature with their weights, which sum to 1."""

MAX_DIGITS = 500
"""Of an integer: the time to parse it grows with their square."""

LARGEST = 10**MAX_DIGITS

MAX_WEIGHT = 1e30
"""Larger weights are refused: their sum could overflow."""


class RequestError(InputError):
    """An invalid request: a line for each mistake."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        lines = (" ".join(mistake[:MAX_LINE].split()) for mistake in mistakes[:MAX_MISTAKES])
        super().__init__("\n".join(lines))


class RequestDecoder:
    """Decodes the users or the ads of requests."""

    def __init__(
        self,
        side: str,
        features: Sequence[Feature],
        limits: Limits = DEFAULT,
        mapping: RawMapping | None = None,
    ) -> None:
        self.side, self._features, self._limits = side, tuple(features), limits
        weights = (feature.weights for feature in features if feature.weights is not None)
        self.raw = raw_features(mapping, features)
        columns = (raw.column for raw in self.raw.values() if raw.column)
        self._allowed = dict.fromkeys([*(feature.name for feature in features), *weights, *columns])
        self._names = tuple(feature.name for feature in features)
        multi = any(feature.multi for feature in features)
        self._values_of = None if multi else [itemgetter(name) for name in self._names]

    def columns(self, given: Sequence[Mapping[str, Any]]) -> list[list[Any]] | None:
        """The values of each feature where every object has exactly the features, one value each.

        None: read the objects one by one. InputError if a value is wrong. A value that needs no
        mapping is not checked: what the model knows is right, and `text_of` checks the others.
        """
        if self._values_of is None or sum(map(len, given)) != len(self._names) * len(given):
            return None
        try:
            found = [list(map(value_of, given)) for value_of in self._values_of]
        except KeyError:
            return None
        raws = self.raw.values()
        return [
            values if raw.is_plain else [raw.value(text_of(value)) for value in values]
            for raw, values in zip(raws, found, strict=True)
        ]

    def read(self, given: Any, where: str, mistakes: list[str]) -> list[Bag]:
        """The values of each feature. Appends to `mistakes` what is wrong."""
        if not isinstance(given, Mapping):
            mistakes.append(f"{where}: must be an object, but is {short(given)}")
            return []
        for key in given:
            if key not in self._allowed and len(mistakes) < MAX_MISTAKES:
                close = did_you_mean(key, self._allowed)
                known = f"; features of the {self.side}: {', '.join(self._names)}"
                mistakes.append(f"{where}.{key}: unknown feature{close}{known}")
        bags = []
        for feature in self._features:
            at = f"{where}.{feature.name}"
            try:
                raw = self.raw[feature.name]
                name = feature.name if feature.name in given else raw.column or feature.name
                if name not in given:
                    raise InputError("missing: use null for an unknown value")
                bags.append(_bag(feature, given, given[name], raw, self._limits.max_values))
            except InputError as error:
                mistakes.append(f"{at}: {error}")
        return bags


def _bag(
    feature: Feature, given: Mapping[str, Any], value: Any, raw: RawFeature, max_values: int
) -> Bag:
    if not feature.multi:
        return [(raw.value(text_of(value)), 1.0)]
    if isinstance(value, str):
        found = raw.values(text_of(value))
        value = value if found is None else found
    if isinstance(value, Mapping | list) and len(value) > max_values:
        raise InputError(
            f"must have at most {max_values} values, but has {len(value)} (--max-values)"
        )
    if isinstance(value, Mapping):
        return _weighted(list(value), list(value.values()))
    if value is None:
        value = []
    if not isinstance(value, list):
        raise InputError(f"must be a list, an object of weights or null, but is {short(value)}")
    weights = given.get(feature.weights) if feature.weights is not None else None
    if weights is None:
        weights = [1.0] * len(value)
    if not isinstance(weights, list) or len(weights) != len(value):
        raise InputError(
            f"{feature.weights} must be a list of {len(value)} weights, one for each value, but is "
            f"{short(weights)}"
        )
    return _weighted(value, weights)


def _weighted(values: Sequence[Any], weights: Sequence[Any]) -> Bag:
    for weight in weights:
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= MAX_WEIGHT:
            raise InputError(f"a weight must be from 0 to {MAX_WEIGHT:g}, but is {short(weight)}")
    total = math.fsum(weights)
    if total == 0:
        return [(MISSING, 1.0)]
    return [(text_of(v), w / total) for v, w in zip(values, weights, strict=True)]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def text_of(value: Any) -> str:
    """A single value as the string that training uses for it."""
    if isinstance(value, str):
        if not value.isascii() and not _is_utf8(value):
            raise InputError(f"must be valid UTF-8, but is {short(value)}")
        return value
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if abs(value) >= LARGEST:
            raise InputError(f"an integer must have at most {MAX_DIGITS} digits")
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return MISSING
        if value.is_integer() and abs(value) < 2**63:
            return str(int(value))
        return str(pa.scalar(value).cast(pa.string()).as_py())
    raise InputError(f"must be a string, a number, true, false or null, but is {short(value)}")
