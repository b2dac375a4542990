"""The record of one cycle of one arm, and its file format.

A record is written once, after its model, and commits the cycle. The file is one line of
checksummed JSON, {"record": ..., "sha256": ...}, with sorted keys and no spaces. Numbers that are
not finite are the strings "NaN", "Infinity" and "-Infinity".
"""

import json
from collections import Counter
from dataclasses import dataclass, replace
from datetime import MAXYEAR, datetime
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from divergence.errors import InputError
from orchestrator.search.lineages import Lineages, Replacement
from orchestrator.search.sampler import SearchState
from orchestrator.storage.checksummed import CorruptError as CorruptError
from orchestrator.storage.checksummed import dumps, loads
from orchestrator.validation.strict import MAX_INT
from trainer.outcome import Outcome, Status, is_useful
from trainer.setting import Setting

SCHEMA = 1
MODEL_PATH = (
    r"^(models/([A-Za-z0-9][A-Za-z0-9._-]{0,63}/)?cycle-\d{6,12}(\.delta)?(-[0-9a-f]{12})?"
    r"|lines/[A-Za-z0-9][A-Za-z0-9._-]{0,63}/(cycle-\d{6,12}-(line-\d{1,6}|champion)|started))"
    r"\.safetensors$"
)
"""The paths of models: those of a run name the arm, those of a published place a checksum. The
snapshots of lines are in a folder of their own."""
MAX_FILES = 1000
"""The most files of a model; the loop writes a full one after 96 deltas."""


def _is_time(text: str) -> str:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None or not 1 < found.year < MAXYEAR:
        raise ValueError("must have a time zone and be far from the first and the last year")
    return text


Time = Annotated[str, AfterValidator(_is_time)]
"""A time, ISO 8601, of which an age can be computed."""


@dataclass(frozen=True, slots=True)
class ChunkInfo:
    """The events of a cycle: where they come from, and how many there are.

    `constant_logloss` is the log-loss of predicting the chunk's own CTR for every event.
    `set_aside` counts skipped rows by reason. `newest` is the time of the last event (ISO 8601);
    None if events have no time. `digest` is a checksum of the events.
    """

    origin: str
    events: int
    clicks: int
    constant_logloss: float
    set_aside: dict[str, int]
    newest: Time | None = None
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file of the run folder, with its checksum and size in bytes."""

    path: Annotated[str, StringConstraints(pattern=MODEL_PATH)]
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0, le=MAX_INT)]


@dataclass(frozen=True, slots=True)
class ChampionNorms:
    """Norms of the champion's vectors.

    The largest |entry|, the mean of the ten largest, and the largest mean square.
    """

    max_inf: float
    top10_inf: float
    max_msqr: float


@dataclass(frozen=True, slots=True)
class ModelOrigin:
    """How to make a line's model again: load `base`, the model after the cycle `since`, and train
    on every chunk since then.

    Without a base it starts with an empty model. `steps` has the settings, each from its cycle on,
    and `skipped` the cycles that the line did not train in.
    """

    base: FileRef | None
    since: int
    steps: tuple[tuple[int, Setting], ...] = ()
    skipped: tuple[int, ...] = ()

    def after(self, cycle: int, setting: Setting, trained: bool) -> "ModelOrigin":
        """The same after one more cycle."""
        same = bool(self.steps) and self.steps[-1][1] == setting
        return replace(
            self,
            steps=self.steps if same else (*self.steps, (cycle, setting)),
            skipped=self.skipped if trained else (*self.skipped, cycle),
        )

    def setting_in(self, cycle: int) -> Setting | None:
        """The setting with which the line trained in a cycle; None: it did not."""
        if cycle in self.skipped:
            return None
        found = [setting for first, setting in self.steps if first <= cycle]
        if not found:
            raise InputError(f"cycle {cycle}: no record says with which setting a line trained")
        return found[-1]


@dataclass(frozen=True, slots=True)
class LinesRecord:
    """The lines of an arm after a cycle; all tuples are in the order of line numbers.

    `served` has the log-loss of each line on this chunk before it trained, None if it was not
    scored. `why` says why the champion is the champion. `biases` has the bias of each line whose
    mean is served, and its AdaGrad sum, in the order of `state.members`.
    """

    cycle: int
    """The last cycle with events: the models are of this cycle."""
    state: Lineages
    origins: tuple[ModelOrigin, ...]
    served: tuple[float | None, ...]
    replaced: tuple[Replacement, ...]
    why: str
    biases: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        """ValueError if the parts do not fit together."""
        lines = range(len(self.state.lines))
        named = [number for one in self.replaced for number in (one.line, one.parent)]
        if self.state.champion is not None:
            named.append(self.state.champion)
        members = self.state.members
        if not (
            len(self.origins) == len(self.served) == len(lines)
            and all(number in lines for number in (*named, *members))
            and len(self.biases) == len(set(members)) == len(members)
            and (not members or self.state.champion in members)
        ):
            raise ValueError(f"there are {len(lines)} lines, but it has others")


class CycleRecord(BaseModel):
    """One cycle of one arm: its input, its outcomes, and where the next cycle starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    schema_version: Literal[1] = 1
    driver: str
    """The driver process that wrote the record: the same for all arms of a committed cycle."""
    config_hash: str
    seed: int
    arm: str
    cycle: int
    started: Time
    """UTC, ISO 8601."""
    chunk: ChunkInfo
    outcomes: tuple[Outcome, ...]
    """In the order of instance numbers."""
    winner: int | None
    """The instance that became champion. None: no instance was retained, the old champion stays."""
    model: Annotated[tuple[FileRef, ...], Field(max_length=MAX_FILES)]
    """What is served after this cycle, the champion or a mean of lines: a full model, then its
    deltas in order. It may come from an earlier cycle. Empty until there is a champion."""
    served_logloss: float | None
    """Log-loss on this chunk, before training, of the model that the cycle started from: the
    champion, or the mean of lines that was served."""
    norms: ChampionNorms | None
    caution: int
    """The caution with which this cycle's settings were drawn; 0 is normal."""
    search: SearchState
    """The state that the next cycle's draws start from."""
    timings: dict[str, float]
    """Seconds by stage; `cycle` is the total."""
    lineages: LinesRecord | None = None
    """The lines, where `search.select` is lineages."""


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """How many instances of a record had each outcome.

    `retained_fraction` is retained / (retained + diverged): failed and late instances are not in
    it. None if there are neither.
    """

    launched: int
    retained: int
    diverged: int
    failed: int
    late: int
    useful: int
    retained_fraction: float | None


def count_outcomes(record: CycleRecord) -> OutcomeCounts:
    """Count the outcomes of a record."""
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


def files_of(record: CycleRecord) -> tuple[FileRef, ...]:
    """All files that a run needs to resume after this record."""
    origins = record.lineages.origins if record.lineages else ()
    bases = {origin.base.path: origin.base for origin in origins if origin.base}
    return (*record.model, *bases.values())


def members_of(record: CycleRecord) -> tuple[int, ...]:
    """The lines whose mean is served after this record; none where one model is."""
    return record.lineages.state.members if record.lineages else ()


def winning_outcome(record: CycleRecord) -> Outcome | None:
    """The outcome of the winning instance; None if there is no winner."""
    return next((o for o in record.outcomes if o.instance == record.winner), None)


def reproducible_part(record: CycleRecord) -> CycleRecord:
    """The record without the fields that may differ between two runs of the same config."""
    outcomes = tuple(replace(o, seconds=0.0, tries=1) for o in record.outcomes)
    blank = {"driver": "", "started": "", "timings": {}, "outcomes": outcomes}
    return record.model_copy(update=blank)


def encode(record: CycleRecord) -> bytes:
    """Serialise a record. A field added after the first version of the format is left out while it
    is None, so that old records keep their bytes."""
    body = json.loads(record.model_dump_json())
    for field in ("newest", "digest"):
        if body["chunk"][field] is None:
            del body["chunk"][field]
    if body["lineages"] is None:
        del body["lineages"]
    elif not body["lineages"]["biases"]:
        del body["lineages"]["biases"], body["lineages"]["state"]["members"]
    for holder, key in [(body["search"], "incumbent"), *((o, "setting") for o in body["outcomes"])]:
        if holder[key] is not None and holder[key]["others"] is None:
            del holder[key]["others"]
    return dumps(body)


def decode(data: bytes, name: str) -> CycleRecord:
    """Read a record; CorruptError if any byte differs from what `encode` wrote.

    `name` is the file's name, for messages. A record of another schema version is an InputError:
    it is not corrupt, so it must not be skipped.
    """
    body = loads(data, name)
    version = body.get("schema_version") if isinstance(body, dict) else None
    if version != SCHEMA:
        raise InputError(
            f"{name}: schema_version must be {SCHEMA}, but is {version}: use the "
            "version of Holdfast that wrote it, or a newer one"
        )
    try:
        return CycleRecord.model_validate_json(json.dumps(body))
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise CorruptError(f"{name}: not a valid cycle record: see the field {where}") from None
