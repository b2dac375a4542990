"""What a stream contains, cycle by cycle and feature by feature.

Values are counted as the model will see them. A value is *new* in the first described cycle that
has it. It has *vanished* from a cycle if the last cycle with events before had it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orchestrator.sources.describe.predictability import Predictability, Reference
from orchestrator.sources.protocol import Events, Source
from trainer.events import column, ragged
from trainer.features import Feature, FeatureSpec

TOP = 8


@dataclass(frozen=True, slots=True)
class CycleSummary:
    """One cycle."""

    cycle: int
    origin: str
    events: int
    clicks: int
    set_aside: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FeatureCycle:
    """One feature in one cycle: how many distinct, new and vanished values it has."""

    values: int
    new: int
    vanished: int


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """A frequent value: the share of events that have it, and their CTR."""

    value: str
    share: float
    ctr: float


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """One feature over all described cycles."""

    name: str
    side: str
    multi: bool
    cardinality: int
    missing: int
    values_per_event: float
    top: tuple[ValueSummary, ...]
    cycles: tuple[FeatureCycle, ...]


@dataclass(frozen=True, slots=True)
class Description:
    """The first cycles of a stream; `ended`: these are all."""

    cycles: tuple[CycleSummary, ...]
    features: tuple[FeatureSummary, ...]
    predictability: Predictability
    ended: bool

    @property
    def events(self) -> int:
        """All events."""
        return sum(cycle.events for cycle in self.cycles)

    @property
    def clicks(self) -> int:
        """All clicks."""
        return sum(cycle.clicks for cycle in self.cycles)

    @property
    def set_aside(self) -> dict[str, int]:
        """Rows set aside, by reason."""
        reasons = sorted({reason for cycle in self.cycles for reason in cycle.set_aside})
        return {r: sum(c.set_aside.get(r, 0) for c in self.cycles) for r in reasons}


class ValueCounts:
    """What has been seen of one feature so far."""

    def __init__(self, feature: Feature, side: str) -> None:
        self._feature, self._side = feature, side
        self._seen = pa.table({"value": pa.array([], pa.string()), "n": pa.array([], pa.int64()),
                               "clicks": pa.array([], pa.int64())})  # fmt: skip
        self._last = pa.array([], pa.string())
        self._missing = self._occurrences = 0
        self._cycles: list[FeatureCycle] = []

    def add(self, table: pa.Table, clicks: NDArray[np.int64]) -> None:
        """Count one more cycle."""
        values, owners = _occurrences(table, self._feature)
        self._missing += len(table) - len(np.unique(owners))
        self._occurrences += len(values)
        now = pa.table({"value": values, "clicks": clicks[owners]})
        counts = now.group_by("value").aggregate([("clicks", "count"), ("clicks", "sum")])
        counts = counts.rename_columns(["value", "n", "clicks"])
        present = column(counts, "value")
        new = pc.invert(pc.is_in(present, self._seen.column("value").combine_chunks()))
        gone = pc.invert(pc.is_in(self._last, present))
        self._cycles.append(FeatureCycle(len(present), _count(new), _count(gone) * (len(now) > 0)))
        both = pa.concat_tables([self._seen, counts.select(self._seen.column_names)])
        summed = both.group_by("value").aggregate([("n", "sum"), ("clicks", "sum")])
        self._seen = summed.rename_columns(["value", "n", "clicks"])
        self._last = present if len(now) else self._last

    def summary(self, events: int) -> FeatureSummary:
        """The counts of all cycles so far."""
        order = [("n", "descending"), ("value", "ascending")]
        top = self._seen.sort_by(order).slice(0, TOP).to_pylist()
        return FeatureSummary(
            name=self._feature.name,
            side=self._side,
            multi=self._feature.multi,
            cardinality=len(self._seen),
            missing=self._missing,
            values_per_event=self._occurrences / max(events, 1),
            top=tuple(
                ValueSummary(row["value"], row["n"] / max(events, 1), row["clicks"] / row["n"])
                for row in top
            ),
            cycles=tuple(self._cycles),
        )


def describe(source: Source, cycles: int) -> Description:
    """Describe the first cycles of a source."""
    counts = [ValueCounts(feature, side) for feature, side in _sides(source.spec)]
    reference = Reference(source.spec)
    summaries: list[CycleSummary] = []
    ended = False
    while len(summaries) < cycles and not ended:
        events = source.events(len(summaries))
        ended = events is None
        if events is not None:
            summaries.append(_summary(events, source.spec))
            clicks = _clicks(events, source.spec)
            for count in counts:
                count.add(events.table, clicks)
            reference.add(events)
    total = sum(summary.events for summary in summaries)
    features = tuple(count.summary(total) for count in counts)
    return Description(tuple(summaries), features, reference.result(), ended)


def _sides(spec: FeatureSpec) -> Iterator[tuple[Feature, str]]:
    yield from ((feature, "user") for feature in spec.user)
    yield from ((feature, "ad") for feature in spec.ad)


def _summary(events: Events, spec: FeatureSpec) -> CycleSummary:
    clicks = int(_clicks(events, spec).sum())
    return CycleSummary(
        events.cycle, events.origin, len(events.table), clicks, dict(events.set_aside)
    )


def _clicks(events: Events, spec: FeatureSpec) -> NDArray[np.int64]:
    return np.asarray(column(events.table, spec.label), dtype=np.int64)


def _occurrences(table: pa.Table, feature: Feature) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values that are not missing, as texts, and the row of each."""
    if feature.multi:
        lists = ragged(table, feature)
        values, owners = lists.values, np.repeat(np.arange(len(table)), lists.lengths)
    else:
        values, owners = column(table, feature.name), np.arange(len(table))
    texts = values.cast(pa.string())
    there = pc.and_(pc.is_valid(values), pc.not_equal(texts, "").fill_null(False))
    if pa.types.is_floating(values.type):
        there = pc.and_(there, pc.invert(pc.is_nan(values)).fill_null(False))
    return texts.filter(there), owners[there.to_numpy(zero_copy_only=False)]


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
