"""What a column of labels holds, and what to write in the config: for errors and warnings."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from orchestrator.sources.files.mapping.columns import rule_column
from orchestrator.sources.files.reading import CLICK_RULE, as_number

ENOUGH = 10_000
"""A stream that can be trained on has both clicks and others among this many events."""
SHOWN = 5
MOST = 1000
POSITIVE = ("1", "yes", "y", "true", "t", "click", "clicked", "positive", "pos")


def frequent(column: pa.Array) -> list[str]:
    """The column's values as texts, the most frequent first, at most a thousand."""
    try:
        texts = column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):  # lists, bytes
        texts = pa.array([str(value) for value in column[:MOST].to_pylist()])
    counts = pc.value_counts(texts.drop_null())
    order = pc.sort_indices(counts.field("counts"), sort_keys=[("", "descending")])[:MOST]
    return list(counts.field("values").take(order).to_pylist())


def wrong_label(name: str, values: Sequence[str]) -> str:
    """The error for a label that is not 0 and 1, and what to write."""
    return f"label {name} holds {shown(values)}: write source.click: {_rule_for(name, values)}"


def no_numbers(click: str, values: Sequence[str]) -> str:
    """What is wrong with a click rule that compares texts with a number."""
    name = rule_column(click)
    positive = _positive([value for value in values if as_number(value) is None])
    hint = f" (did you mean {name} == {positive[0]}?)" if positive else ""
    return f"source.click {click!r}: {name} holds {shown(values)}, not numbers{hint}"


def no_clicks(click: str, values: Sequence[str], *, all_clicks: bool) -> str:
    """What is wrong with a click rule that every row meets, or none."""
    rule = CLICK_RULE.fullmatch(click)
    assert rule is not None, "the config checks the rule"
    result = "every event is a click" if all_clicks else "no event is a click"
    hint = f" (did you mean {rule['column']} == {near}?)" if (near := meant(click, values)) else ""
    return f"source.click {click!r}: {result}: {rule['column']} holds {shown(values)}{hint}"


def meant(click: str, values: Sequence[str]) -> str | None:
    """The value of the column that a rule such as `clicked == YES` probably means."""
    rule = CLICK_RULE.fullmatch(click)
    assert rule is not None, "the config checks the rule"
    wanted = rule["value"].strip("'\"")
    if rule["sign"] not in ("==", "!=") or wanted in values:
        return None
    folded = {value.strip().casefold(): value for value in reversed(values)}
    close = get_close_matches(wanted.casefold(), folded, 1, cutoff=0.75)
    return folded[close[0]] if close else None


def shown(values: Sequence[str]) -> str:
    """Some values, as a person reads them."""
    if not values:
        return "nothing"
    few = [_short(value) for value in sorted(values[:SHOWN])]
    return ", ".join(few) + (", …" if len(values) > SHOWN else "")


def _short(value: str) -> str:
    if as_number(value) is not None:
        return value
    return repr(value if len(value) <= 20 else value[:19] + "…")


def _rule_for(name: str, values: Sequence[str]) -> str:
    numbers: list[Any] = [as_number(value) for value in values]
    if values and None not in numbers:
        high = sorted(numbers)[len(numbers) * 3 // 4 if len(numbers) > 2 else -1]
        return f"{name} >= {high:g}"
    return f"{name} == {[*_positive(values), *values, 'VALUE'][0]}"


def _positive(values: Sequence[str]) -> list[str]:
    """Those that usually mean a click."""
    folded = {value.strip().casefold(): value for value in reversed(values)}
    return [folded[word] for word in POSITIVE if word in folded]
