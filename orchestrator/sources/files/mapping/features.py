"""From the columns of a file to the columns of the features."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.sources.files.mapping import columns
from orchestrator.sources.files.mapping.columns import BuiltColumn
from orchestrator.sources.files.mapping.times import Times, times_of
from orchestrator.sources.files.reading import Column, Reading
from orchestrator.sources.files.rows import Rows
from trainer.events import column
from trainer.features import Feature, FeatureSpec

UNCHANGED = Column()
MOST_NAMES = 1000
"""In how many columns a misspelt one is looked for."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Rows in the features' columns. `broken` maps row numbers to reasons.

    `ticks` is the time of every row in microseconds since 1970. A row without a time has that of
    the row before it (else after it), or -1 if no row of the block has one.
    """

    table: pa.Table
    broken: Mapping[int, str]
    ticks: NDArray[np.int64]
    zoned: bool | None
    unit_hint: str | None = None


def columns_in_file(reading: Reading, spec: FeatureSpec) -> dict[str, str]:
    """For each column of the spec, the column of the file that it is read from."""
    label = spec.label if reading.click is None else columns.rule_column(reading.click)
    names = {spec.label: label}
    if spec.timestamp is not None:
        names[spec.timestamp] = reading.timestamp.column or spec.timestamp
    for feature in spec.features:
        for name in filter(None, (feature.name, feature.weights)):
            names[name] = rule_of(reading, name).column or name
    return names


def unused_rules(reading: Reading, spec: FeatureSpec) -> list[str]:
    """A line for each rule of `source.columns` that no feature uses."""
    known = columns_in_file(reading, spec)
    named = ", ".join(feature.name for feature in spec.features)
    return [
        f"source.columns.{name} does not belong to a feature; the features are {named}"
        for name in sorted(set(reading.columns) - set(known))
    ]


def check_rules(reading: Reading, features: Sequence[Feature]) -> None:
    """InputError for a rule that has no effect on its feature: it was meant to have one."""
    for feature in features:
        name, rule = feature.name, rule_of(reading, feature.name)
        if rule.split is not None and not feature.multi:
            raise InputError(
                f"source.columns.{name}.split: feature {name} has one value per event; if it has "
                f"several, write {{name: {name}, multi: true}} under features"
            )
        for key in ("bins", "log", "round", "slice"):
            if feature.multi and getattr(rule, key):
                raise InputError(
                    f"source.columns.{name}.{key}: has no effect on a feature with multi: true"
                )


def present_columns(
    wanted: Mapping[str, str], there: Sequence[str], reading: Reading, spec: FeatureSpec
) -> list[str]:
    """The columns to read. `InputError` if one is missing and not optional."""
    for name, source in wanted.items():
        if source not in there and not rule_of(reading, name).optional:
            close = " or ".join(map(repr, get_close_matches(source, there[:MOST_NAMES], 3)))
            some = ", ".join(map(_shown, there[:20])) + (" …" if len(there) > 20 else "")
            role = "" if name == source else f" for {name!r}"
            hint = f"did you mean {close}?" if close else f"it has {some}"
            remedy = _remedy(name, source, spec)
            end = "." if remedy and not close else ""
            raise InputError(f"no column {source!r}{role}; {hint}{end}{remedy}")
        if there.count(source) > 1:
            raise InputError(f"more than one column {source!r}")
    return [source for source in dict.fromkeys(wanted.values()) if source in there]


def _remedy(name: str, source: str, spec: FeatureSpec) -> str:
    """Which key names the label or the time, where neither was mapped."""
    if name != source:
        return ""
    if name == spec.label:
        return " For the label, write features.label: COLUMN or source.click: COLUMN == VALUE"
    if name == spec.timestamp:
        return " For the time, write source.timestamp: {column: COLUMN, unit: UNIT}"
    return ""


def _shown(name: str) -> str:
    """A name from a file, which may be anything."""
    text = name if name.isprintable() else ascii(name)
    return text if len(text) <= 40 else text[:39] + "…"


def mapped(rows: Rows, reading: Reading, spec: FeatureSpec) -> Mapped:
    """The features' columns of these rows; a row that cannot be mapped is broken."""
    broken = dict(rows.broken)
    made: dict[str, pa.Array] = {}
    ticks, zoned, unit_hint = np.full(len(rows.table), -1), None, None
    if spec.timestamp is not None:
        times = event_times(rows, reading, spec)
        made[spec.timestamp], zoned, ticks = times.values, times.zoned, filled(times.values)
        unit_hint = times.unit_hint
        _note(broken, times.unparsable, f"{spec.timestamp} is not a time")
        _note(broken, times.implausible, f"{spec.timestamp} is not between 1970 and 2100")
    for name, result in _built_columns(rows, reading, spec):
        made[name] = result.values
        if result.unusable is not None:
            _note(broken, result.unusable, result.reason)
    return Mapped(pa.table(made), broken, ticks, zoned, unit_hint)


def event_times(rows: Rows, reading: Reading, spec: FeatureSpec) -> Times:
    """The times of these rows; only the time column is needed."""
    assert spec.timestamp is not None, "the caller checks that there is one"
    written = column_or_nulls(rows.table, reading.timestamp.column or spec.timestamp)
    return times_of(columns.plain(written), reading.timestamp)


def filled(times: pa.Array) -> NDArray[np.int64]:
    """A time for every row, in microseconds; -1 if no row has one."""
    known = times.cast(pa.int64())
    if known.null_count:
        known = pc.fill_null_backward(pc.fill_null_forward(known))
    return np.asarray(known.fill_null(-1), dtype=np.int64)


def _built_columns(
    rows: Rows, reading: Reading, spec: FeatureSpec
) -> Iterator[tuple[str, BuiltColumn]]:
    table, names = rows.table, columns_in_file(reading, spec)
    label = column_or_nulls(table, names[spec.label])
    yield spec.label, columns.label(label, reading.click, spec.label)
    for feature in spec.features:
        rule, source = rule_of(reading, feature.name), column_or_nulls(table, names[feature.name])
        make = columns.value_lists if feature.multi else columns.values
        made = make(source, rule, reading.missing, feature.name)
        yield feature.name, made if rows.declared else columns.as_texts(made)
        if feature.weights is not None:
            name = feature.weights
            weights = column_or_nulls(table, names[name])
            yield name, columns.weight_lists(weights, rule_of(reading, name), name)


def rule_of(reading: Reading, name: str) -> Column:
    """How a feature is made from its column."""
    return reading.columns.get(name, UNCHANGED)


def column_or_nulls(table: pa.Table, name: str) -> pa.Array:
    """A column of a file; nulls if it has none of that name."""
    if name not in table.column_names:
        return pa.nulls(len(table))
    return column(table, name)


def _note(broken: dict[int, str], rows: NDArray[np.bool_], reason: str) -> None:
    """Keeps the first reason found for a row."""
    for row in np.flatnonzero(rows):
        broken.setdefault(int(row), reason)
