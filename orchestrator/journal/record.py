"""The record of one cycle of one arm, and its form on disk.

A record is written once, after its model, and commits the cycle. On disk it is one line of
canonical JSON, {"record": ..., "sha256": ...}: keys sorted, no spaces, numbers that are not finite
as the texts "NaN", "Infinity", "-Infinity". Any changed byte is noticed.
"""

import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from divergence.errors import InputError
from orchestrator.search.sampler import SearchState
from orchestrator.storage.checksummed import DamagedError as DamagedError
from orchestrator.storage.checksummed import dumps, loads
from trainer.outcome import Outcome, Status, is_useful

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """The cycle's events: whence, how many, and the log-loss of a model that knows their CTR.

    `newest` is the last event's time (ISO 8601); None where events have none.
    """

    origin: str
    events: int
    clicks: int
    constant_logloss: float
    set_aside: dict[str, int]
    newest: str | None = None


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the run folder."""

    path: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ChampionNorms:
    """The champion's vectors: largest |entry|, the mean of its ten largest, largest mean square."""

    max_inf: float
    top10_inf: float
    max_msqr: float


class CycleRecord(BaseModel):
    """One cycle of one arm: what it was given, what came of it, and where the next one starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    schema_version: Literal[1] = 1
    driver: str
    """Which driver process wrote it: the arms of a committed cycle agree."""
    config_hash: str
    seed: int
    arm: str
    cycle: int
    started: str
    """UTC, ISO 8601."""
    chunk: ChunkInfo
    outcomes: tuple[Outcome, ...]
    """By instance number."""
    winner: int | None
    """The champion's instance number. None: no instance was retained and the champion stays."""
    model: tuple[FileRef, ...]
    """The champion after this cycle: a full model, then the deltas on it in order. It may stem
    from an earlier cycle; it is empty while there has been no champion."""
    served_logloss: float | None
    """Log-loss on this chunk, before training, of the champion that this cycle started from."""
    norms: ChampionNorms | None
    caution: int
    """How cautiously this cycle was drawn; 0 is normal."""
    search: SearchState
    """What the next cycle's draws build on."""
    timings: dict[str, float]
    """Seconds, by stage; `cycle` is the whole."""


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """The outcomes of a record, counted.

    `retained_fraction` is over the instances that divergence decided: failed and late ones are
    counted apart. None where there are none.
    """

    launched: int
    retained: int
    diverged: int
    failed: int
    late: int
    useful: int
    retained_fraction: float | None


def count_outcomes(record: CycleRecord) -> OutcomeCounts:
    """Count a record's outcomes."""
    count = Counter(outcome.status for outcome in record.outcomes)
    retained, diverged = count[Status.RETAINED], count[Status.DIVERGED]
    return OutcomeCounts(
        launched=len(record.outcomes),
        retained=retained,
        diverged=diverged,
        failed=count[Status.FAILED],
        late=count[Status.LATE],
        useful=sum(is_useful(o, record.chunk.constant_logloss) for o in record.outcomes),
        retained_fraction=retained / (retained + diverged) if retained + diverged else None,
    )


def champion(record: CycleRecord) -> Outcome | None:
    """The winner's outcome."""
    return next((o for o in record.outcomes if o.instance == record.winner), None)


def without_clock(record: CycleRecord) -> CycleRecord:
    """The record less what may differ between two runs of the same bits."""
    outcomes = tuple(replace(o, seconds=0.0, tries=1) for o in record.outcomes)
    blank = {"driver": "", "started": "", "timings": {}, "outcomes": outcomes}
    return record.model_copy(update=blank)


def encode(record: CycleRecord) -> bytes:
    """The record as it is on disk. What came later than the format stands only where it says
    something, so that old records keep their bytes."""
    body = json.loads(record.model_dump_json())
    if body["chunk"]["newest"] is None:
        del body["chunk"]["newest"]
    return dumps(body)


def decode(data: bytes, name: str) -> CycleRecord:
    """The record in `data`, or DamagedError unless it is byte for byte as it was written.

    `name` is the file's, for messages. A record of another schema is an InputError: it is sound,
    and must not be taken for damage and passed over.
    """
    body = loads(data, name)
    version = body.get("schema_version") if isinstance(body, dict) else None
    if version != SCHEMA:
        raise InputError(
            f"{name}: schema_version must be {SCHEMA}, but is {version}: use the "
            "Holdfast that wrote it, or a newer"
        )
    try:
        return CycleRecord.model_validate_json(json.dumps(body))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise DamagedError(f"{name}: not a cycle record: see its {where}") from None
