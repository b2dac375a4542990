"""How a set of files is read: where they are, how they are cut, what each column means."""

import re
from itertools import pairwise
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    AwareDatetime,
    Field,
    field_serializer,
    field_validator,
    model_validator,
)

from orchestrator.sources.protocol import SourceConfig
from orchestrator.validation.errors import cut, short
from orchestrator.validation.secrets import Options, Uri, harmless, without_credentials
from orchestrator.validation.strict import Strict

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
"""At most a year."""
CLICK_RULE = re.compile(r"\s*(?P<column>.+?)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>\S.*?)\s*")


def _ascii(sign: str) -> str:
    if not sign.isascii():
        raise ValueError(f"must be an ASCII character, but is {short(sign)}")
    return sign


def _rising(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must rise, but are {short(edges)}")
    return edges


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(
            f"unknown time zone {cut(repr(name))}; an example is Europe/Berlin"
        ) from error
    return name


def _comparison(rule: str) -> str:
    parts = CLICK_RULE.fullmatch(rule)
    if parts is None:
        raise ValueError(f"a click rule reads like 'rating >= 4', but is {cut(repr(rule))}")
    if parts["sign"] not in ("==", "!=") and as_number(parts["value"]) is None:
        raise ValueError(f"{parts['sign']} needs a number, but the click rule is {cut(repr(rule))}")
    return rule


def as_number(text: str) -> float | None:
    """The number that this text is, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


Sign = Annotated[str, Field(min_length=1, max_length=1), AfterValidator(_ascii)]


class Column(Strict):
    """What a feature is made of. At most one of bins, log, round, slice and split."""

    column: Name | None = None
    """The column in the file, where it has another name than the feature."""
    bins: Annotated[tuple[float, ...], Field(min_length=1), AfterValidator(_rising)] | None = None
    """Edges: [18, 25] makes <18, [18,25) and >=25."""
    log: Annotated[float, Field(gt=1)] | None = None
    """Bins that grow by this factor: 2 makes [1,2), [2,4), [4,8) …, and 0 and <0 of their own."""
    round: Annotated[float, Field(ge=1e-100)] | None = None
    """The nearest multiple of this."""
    slice: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]] | None = None
    """The characters from start up to stop: [0, 2] of 94043 is 94."""
    split: Name | None = None
    """What stands between the values of a multi-valued text, such as | in Action|Comedy."""
    optional: bool = False
    """A file may lack this column; its values are then missing."""

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        given = [k for k in ("bins", "log", "round", "slice", "split") if getattr(self, k)]
        if len(given) > 1:
            raise ValueError(f"only one of bins, log, round, slice, split, but has {given}")
        if self.slice is not None and self.slice[0] >= self.slice[1]:
            raise ValueError(f"slice must be [start, stop] with start < stop, but is {self.slice}")
        return self


class Timestamp(Strict):
    """How the time of an event is written."""

    column: Name | None = None
    """The column in the file, where it has another name than features.timestamp."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """The numbers count these since 1970. Without it: ISO texts, or a timestamp type."""
    format: Name | None = None
    """The texts are of this strptime format, such as %y%m%d%H."""
    timezone: Annotated[str, AfterValidator(_known_zone)] = "UTC"
    """What a time without a zone means."""

    @model_validator(mode="after")
    def _unit_or_format(self) -> Self:
        if self.unit is not None and self.format is not None:
            raise ValueError("only one of unit and format")
        return self


class Csv(Strict):
    """The dialect of CSV files. A line is a row: a quoted field cannot hold a line break."""

    delimiter: Sign | None = None
    """A comma, or a tab in .tsv files."""
    quote: Sign | None = '"'
    """None where quotes are characters like any other."""
    columns: tuple[Name, ...] | None = None
    """The columns' names, in order, where the files have no header line."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"


class Cut(Strict):
    """How a stream is cut into cycles: by time or by count."""

    minutes: Annotated[float, Field(ge=1e-3, le=5_256_000)] | None = None
    """The events of this many minutes make a cycle; from 60 ms to ten years."""
    start: AwareDatetime | None = None
    """When cycle 0 begins; earlier events are left out. Default: the first event."""
    events: Annotated[int, Field(ge=1)] | None = None
    """This many rows, in the order of file names and lines, make a cycle."""

    @model_validator(mode="after")
    def _time_or_count(self) -> Self:
        if (self.minutes is None) == (self.events is None):
            raise ValueError("exactly one of minutes and events")
        if self.start is not None and self.minutes is None:
            raise ValueError("start goes with minutes")
        return self


class Reading(SourceConfig):
    """What every source of files has."""

    format: Literal["parquet", "csv", "jsonl"] | None = None
    """Default: by the file's suffix."""
    csv: Csv = Csv()
    click: Annotated[str, AfterValidator(_comparison)] | None = None
    """Makes the label of a number: rating >= 4. Default: the label's column holds 0 and 1."""
    timestamp: Timestamp = Timestamp()
    columns: dict[Name, Column] = Field(default_factory=dict)
    """By feature; one that is not listed is the file's column of that name, as it is."""
    missing: tuple[str, ...] = ()
    """Texts that mean a missing value, such as NA, beside the empty one."""
    max_broken_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """A cycle with a larger share of broken rows ends the run before it is trained on."""
    quarantine: Uri | None = None
    """Folder or URI for the broken rows, one JSON-lines file a cycle. Default: in the run."""
    storage_options: Options = Field(default_factory=dict)
    """For fsspec, such as endpoint_url. Secrets belong in the environment. All options are used,
    but only harmless ones (region, anon, endpoint_url …) are written to the run's folder."""

    @field_serializer("storage_options")
    def _harmless(self, options: dict[str, Any]) -> dict[str, Any]:
        return harmless(options)

    @field_validator("path", check_fields=False)
    @classmethod
    def _without_credentials(cls, path: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for uri in (path,) if isinstance(path, str) else path:
            without_credentials(uri)
        return path


class FilesConfig(Reading):
    """A set of files that is there, cut into cycles."""

    kind: Literal["files"] = "files"
    path: Name | Annotated[tuple[Name, ...], Field(min_length=1)]
    """File, folder, glob or fsspec URI, or several."""
    cut: Cut


class FollowConfig(Reading):
    """A folder that is being filled: each new file, in order of name, is the next chunk."""

    kind: Literal["follow"] = "follow"
    path: Name
    """Folder or URI."""
    poll_s: Annotated[Seconds, Field(gt=0)] = 5.0
    """How often to look for the next file."""
    settle_s: Seconds = 2.0
    """A local file counts once it has not been written to for so long."""
    end_marker: Name = "_DONE"
    """A file of this name in the folder ends the stream, once all others are taken."""
