"""Times of events in any notation, as microseconds in UTC.

| written as | read as |
|---|---|
| a timestamp type or ISO text with a zone | that instant |
| a timestamp type, ISO text or text of `format`, without a zone | local to `timezone` (UTC) |
| a number, with `unit` | since 1970 UTC |
| a time before 1970 or after 2100 | a broken row: the unit is probably wrong |
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError
from orchestrator.sources.files.mapping.numbers import is_text, numbers_of
from orchestrator.sources.files.reading import Timestamp

UTC = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
YEAR = 365 * 86_400_000_000
EARLIEST = 788_918_400_000_000  # 1995-01-01
LATEST = 4_102_444_800_000_000  # 2100-01-01
FARTHEST = 2**62  # far beyond LATEST: broken, but not an overflow
PER_UNIT = {"s": 1_000_000.0, "ms": 1_000.0, "us": 1.0, "ns": 0.001}


@dataclass(frozen=True, slots=True)
class Times:
    """`values` in UTC, null if unknown; `zoned`: written with a zone (None: cannot be said).

    `unit_hint` says what is wrong if the unit probably is.
    """

    values: pa.Array
    zoned: bool | None
    unparsable: NDArray[np.bool_]
    implausible: NDArray[np.bool_]
    unit_hint: str | None = None


def times_of(column: pa.Array, rule: Timestamp) -> Times:
    """The times of a column. `InputError` if the config must give their unit, or must not."""
    text, temporal = is_text(column.type), pa.types.is_temporal(column.type)
    if rule.unit is not None and temporal:
        raise InputError(
            f"times of type {column.type} have a unit already: remove source.timestamp.unit, "
            f"which is {rule.unit!r}"
        )
    if rule.unit is not None:
        values, zoned = _epoch(column, PER_UNIT[rule.unit]), None
    elif pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
        column = _without_overflow(column)
        values = column.cast(UTC, safe=False) if zoned else _in_zone(column, rule.timezone)
    elif rule.format is not None:
        written = column if text else column.cast(pa.string())
        parsed = pc.strptime(written, rule.format, "us", error_is_null=True)
        values, zoned = _in_zone(parsed, rule.timezone), False
    elif text:
        values, zoned = _iso(pc.utf8_trim_whitespace(column), rule.timezone)
    else:
        raise InputError(f"times of type {column.type} need source.timestamp.unit: s, ms, us or ns")
    return _checked(column, values, zoned, rule.unit)


def _checked(column: pa.Array, values: pa.Array, zoned: bool | None, unit: str | None) -> Times:
    ticks = ticks_of(values)
    if len(ticks) and not values.null_count and YEAR <= ticks.min() <= ticks.max() < LATEST:
        fault = np.zeros(len(ticks), bool)  # almost always; spares a dozen passes
        return Times(values, zoned, unparsable=fault, implausible=fault)
    hint = _unit_hint(ticks_of(values.drop_null()) if values.null_count else ticks, unit)
    if unit is not None and values.null_count == len(values) and is_text(column.type):
        hint = _iso_hint(column, unit)
    known = pc.is_valid(values).to_numpy(zero_copy_only=False)
    implausible = known & ((ticks < 0) | (ticks >= LATEST))
    written = pc.is_valid(column).to_numpy(zero_copy_only=False)
    if is_text(column.type):
        written &= (
            pc.not_equal(pc.utf8_trim_whitespace(column), "")
            .fill_null(False)
            .to_numpy(zero_copy_only=False)
        )
    if implausible.any():
        values = pc.if_else(pa.array(implausible), pa.scalar(None, UTC), values)
    return Times(values, zoned, written & ~known, implausible, hint)


def _unit_hint(ticks: NDArray[np.int64], unit: str | None) -> str | None:
    """What to write if almost all times are in 1970, or after 2100, and in our age in another unit.

    Times that count from zero fit no other unit.
    """
    if not len(ticks) or YEAR <= ticks.min() <= ticks.max() < LATEST:
        return None
    low, high = (float(tick) for tick in np.quantile(ticks, (0.01, 0.99)))
    if not (low > -YEAR and high < YEAR) and low < LATEST:
        return None
    where = "in 1970" if high < YEAR else "after 2100"
    scale = PER_UNIT[unit] if unit else 0.001  # a file's own times may be wrong by up to 10^9
    fits = [
        u for u, s in PER_UNIT.items() if EARLIEST <= low * s / scale <= high * s / scale < LATEST
    ]
    if not fits:
        return None
    if unit is None:
        return f"all times are {where}: they were probably written in the wrong unit"
    return f"with source.timestamp.unit {unit}, all times are {where}: write unit: {fits[0]}"


def _iso_hint(column: pa.Array, unit: str) -> str | None:
    """What to write if texts that are no numbers are ISO texts."""
    first = next((text.strip() for text in column.to_pylist() if text and text.strip()), "")
    if _instant(first) is None:
        return None
    return f"times like {first!r} are ISO texts: remove source.timestamp.unit, which is {unit!r}"


def ticks_of(values: pa.Array) -> NDArray[np.int64]:
    """Microseconds since 1970; 0 for null."""
    return np.asarray(values.cast(pa.int64()).fill_null(0), dtype=np.int64)


def _epoch(column: pa.Array, per_unit: float) -> pa.Array:
    if pa.types.is_integer(column.type) and per_unit >= 1 and column.null_count == 0:
        ends, most = pc.min_max(column), FARTHEST / per_unit
        if not len(column) or (-most < ends["min"].as_py() and ends["max"].as_py() < most):
            whole = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return pa.array(whole * int(per_unit), NAIVE).cast(UTC)
    with np.errstate(over="ignore"):  # beyond float64 is beyond FARTHEST, too
        counts = numbers_of(column).values * per_unit
    counts[np.abs(counts) > FARTHEST] = FARTHEST
    known = np.isfinite(counts)
    ticks = np.rint(np.where(known, counts, 0)).astype(np.int64)
    return pa.array(ticks, NAIVE, mask=~known).cast(UTC)


def _without_overflow(column: pa.Array) -> pa.Array:
    """Times that microseconds cannot express become the farthest that they can."""
    if pa.types.is_date32(column.type):
        return column
    unit = "ms" if pa.types.is_date64(column.type) else column.type.unit
    ticks, most = column.view(pa.int64()), int(FARTHEST / max(PER_UNIT[unit], 1))
    ticks = pc.min_element_wise(ticks, most, skip_nulls=False)
    return pc.max_element_wise(ticks, -most, skip_nulls=False).view(column.type)


def _in_zone(naive: pa.Array, zone: str) -> pa.Array:
    local = naive.cast(NAIVE, safe=False)
    aware = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    return aware.cast(UTC)


def _iso(column: pa.Array, zone: str) -> tuple[pa.Array, bool | None]:
    """ISO texts, all with a zone or all without. Tries Arrow first, then one by one."""
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
    if column.null_count == len(column):
        return pa.nulls(len(column), UTC), None
    try:
        return column.cast(UTC), True
    except pa.ArrowInvalid:
        pass
    try:
        return _in_zone(column.cast(NAIVE), zone), False
    except pa.ArrowInvalid:
        return _iso_one_by_one(column.to_pylist(), zone)


def _iso_one_by_one(texts: list[str | None], zone: str) -> tuple[pa.Array, bool | None]:
    found = [None if text is None else _instant(text) for text in texts]
    kinds: dict[bool, str] = {}
    for text, time in zip(texts, found, strict=True):
        if text is not None and time is not None:
            kinds.setdefault(time.tzinfo is not None, text)
    if len(kinds) == 2:
        raise InputError(zone_mix(kinds[True], kinds[False]))
    if not kinds:
        _refuse_bare_numbers(texts)
        return pa.nulls(len(texts), UTC), None
    if True in kinds:
        return pa.array(found, UTC), True
    return _in_zone(pa.array(found, NAIVE), zone), False


def _instant(text: str) -> datetime | None:
    parse: Callable[[str], datetime] = datetime.fromisoformat
    try:
        return None if text.isdigit() else parse(text)
    except ValueError:
        return None


def _refuse_bare_numbers(texts: list[str | None]) -> None:
    first = next((text for text in texts if text), "")
    if first.replace(".", "", 1).isdigit():
        raise InputError(
            f"times like {first!r} need source.timestamp.unit (s, ms, us or ns) or .format"
        )


def zone_mix(zoned: str, naive: str) -> str:
    """The error message for a stream that has both."""
    return (
        f"times with and without a time zone are mixed ({zoned!r} and {naive!r}); "
        "write all of them in the same way"
    )
