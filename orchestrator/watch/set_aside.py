"""The rows that a run did not train on: broken ones, and those that came too late."""

from collections import Counter
from collections.abc import Iterable, Mapping

from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.sources.protocol import LATE_REASONS


def set_aside_in(records: Iterable[CycleRecord]) -> dict[str, int]:
    """Rows by reason. The arms of a cycle have the same chunk, which counts once."""
    cycles = {record.cycle: record.chunk.set_aside for record in records}
    return dict(sum(map(Counter, cycles.values()), Counter[str]()))


def set_aside_text(counts: Mapping[str, int], config: RunConfig, run_uri: str) -> str | None:
    """How many rows were set aside, and where they are; None if there are none."""
    late = sum(counts.get(reason, 0) for reason in LATE_REASONS)
    broken = sum(counts.values()) - late
    where = config.source.reading.quarantine or f"{run_uri}/quarantine"
    parts = [f"{_rows(broken)} set aside: {where}"] if broken else []
    parts += [f"{_rows(late)} skipped: older than what was trained"] if late else []
    return "; ".join(parts) or None


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
