"""All mistakes in a mapping that the first rows of a file show, so that one look mends them all.

Reading stops at the first mistake. This looks for the others, once there is one.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divergence.errors import InputError, one_line
from orchestrator.sources.files.mapping import columns
from orchestrator.sources.files.mapping.features import (
    check_rules,
    column_or_nulls,
    columns_in_file,
    event_times,
    present_columns,
    rule_of,
    unused_rules,
)
from orchestrator.sources.files.mapping.label_hints import (
    ENOUGH,
    frequent,
    meant,
    no_clicks,
    no_numbers,
    shown,
    wrong_label,
)
from orchestrator.sources.files.mapping.numbers import numbers_of
from orchestrator.sources.files.reading import Column, Reading
from orchestrator.sources.files.rows import Rows
from trainer.events import column
from trainer.features import Feature, FeatureSpec


def with_others(error: InputError, found: Sequence[str], name: str) -> InputError:
    """An error with the mistakes that it does not name yet, each of the file of that name."""
    text = str(error)
    more = [f"{name}: {one}" for one in found if one not in text]
    return InputError("\n".join([text, *more]))


def mistakes(rows: Rows, there: Sequence[str], reading: Reading, spec: FeatureSpec) -> list[str]:
    """A line for each mistake in the mapping of these rows; `there` are the file's columns."""
    names = columns_in_file(reading, spec)
    if not set(names.values()) & set(there):
        return [
            "none of the columns is there: a CSV file without a header needs source.csv.columns"
        ]
    found = [*unused_rules(reading, spec), *_rule_mistakes(reading, spec)]
    for name, source in names.items():
        found += _raised(partial(present_columns, {name: source}, there, reading, spec))
    if spec.timestamp is not None and names[spec.timestamp] in there:
        found += _listed(_time_mistakes(rows, reading, spec))
    if names[spec.label] in there:
        written = column(rows.table, names[spec.label])
        found += _listed(_label_mistakes(written, names[spec.label], reading))
    for feature in spec.features:
        if names[feature.name] in there:
            found += _listed(_feature_mistakes(rows.table, feature, names[feature.name], reading))
    return found


def _listed(found: Iterator[str]) -> Iterator[str]:
    """The mistakes found, and the message of a check that fails."""
    try:
        yield from found
    except (InputError, pa.ArrowException) as error:
        yield one_line(error)


def _raised(check: Callable[[], object]) -> list[str]:
    """The message of a check that fails."""
    try:
        check()
    except (InputError, pa.ArrowException) as error:
        return [one_line(error)]
    return []


def _rule_mistakes(reading: Reading, spec: FeatureSpec) -> Iterator[str]:
    for feature in spec.features:
        yield from _raised(partial(check_rules, reading, (feature,)))


def _time_mistakes(rows: Rows, reading: Reading, spec: FeatureSpec) -> Iterator[str]:
    hint = event_times(rows, reading, spec).unit_hint
    if hint:
        yield hint


def _label_mistakes(written: pa.Array, name: str, reading: Reading) -> Iterator[str]:
    written, click = columns.plain(written), reading.click
    if not len(written):
        return
    made = columns.label(written, click, name)
    if click is None:
        numbers = numbers_of(written)
        wrong = numbers.unparsable | (
            np.isfinite(numbers.values) & ~np.isin(numbers.values, (0, 1))
        )
        if wrong.mean() > reading.max_broken_share:
            yield wrong_label(name, frequent(written))
        return
    if made.unusable is not None and made.unusable.mean() > reading.max_broken_share:
        yield no_numbers(click, frequent(written))
        return
    rate, values = pc.mean(made.values).as_py(), frequent(written)
    if rate in (0.0, 1.0) and (len(written) >= ENOUGH or meant(click, values)):
        yield no_clicks(click, values, all_clicks=rate == 1.0)


def _feature_mistakes(
    table: pa.Table, feature: Feature, source: str, reading: Reading
) -> Iterator[str]:
    rule, written = rule_of(reading, feature.name), column_or_nulls(table, source)
    make = columns.value_lists if feature.multi else columns.values
    made = make(written, rule, reading.missing, feature.name)
    if made.unusable is not None and made.unusable.mean() > reading.max_broken_share:
        yield (
            f"source.columns.{feature.name}.{_operation(rule)} needs numbers, but {source} holds "
            f"{shown(frequent(columns.plain(written)))}"
        )


def _operation(rule: Column) -> str:
    return next(key for key in ("bins", "log", "round") if getattr(rule, key) is not None)
