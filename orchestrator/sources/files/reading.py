"""How files of events are read: format, label, time, and what each column means."""

import re
from itertools import pairwise
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    Field,
    field_serializer,
    field_validator,
    model_validator,
)

from orchestrator.validation.errors import cut, short
from orchestrator.validation.secrets import Options, Uri, harmless, without_credentials
from orchestrator.validation.strict import LAX, Items, Strict

Name = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
"""At most a year."""
StartStop = Annotated[tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]], LAX]
CLICK_RULE = re.compile(r"\s*(?P<column>.+?)\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<value>\S.*?)\s*")


def _ascii(sign: str) -> str:
    if not sign.isascii():
        raise ValueError(f"must be an ASCII character, but is {short(sign)}")
    return sign


def _rising(edges: tuple[float, ...]) -> tuple[float, ...]:
    if any(low >= high for low, high in pairwise(edges)):
        raise ValueError(f"edges must increase, but are {short(edges)}")
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
        raise ValueError(f"a click rule must look like 'rating >= 4', but is {cut(repr(rule))}")
    if parts["sign"] not in ("==", "!=") and as_number(parts["value"]) is None:
        raise ValueError(f"{parts['sign']} needs a number, but the click rule is {cut(repr(rule))}")
    return rule


def as_number(text: str) -> float | None:
    """The text as a number; None if it is not one."""
    try:
        return float(text)
    except ValueError:
        return None


Sign = Annotated[str, Field(min_length=1, max_length=1), AfterValidator(_ascii)]


class Column(Strict):
    """How a feature is read from its column. At most one of bins, log, round, slice and split."""

    column: Name | None = None
    """The column in the file, if its name is not the feature's."""
    bins: Annotated[Items[float], Field(min_length=1), AfterValidator(_rising)] | None = None
    """Edges: [18, 25] makes <18, [18,25) and >=25."""
    log: Annotated[float, Field(gt=1)] | None = None
    """Bins that grow by this factor: 2 makes [1,2), [2,4), [4,8) …; 0 and <0 have their own."""
    round: Annotated[float, Field(ge=1e-100)] | None = None
    """The nearest multiple of this."""
    slice: StartStop | None = None
    """The characters from start up to stop: [0, 2] of 94043 is 94."""
    split: Name | None = None
    """The separator of a multi-valued text, such as | in Action|Comedy."""
    optional: bool = False
    """A file may lack this column; its values are then missing."""

    @model_validator(mode="after")
    def _one_operation(self) -> Self:
        given = [k for k in ("bins", "log", "round", "slice", "split") if getattr(self, k)]
        if len(given) > 1:
            raise ValueError(
                f"only one of bins, log, round, slice, split may be given, but got {given}"
            )
        if self.slice is not None and self.slice[0] >= self.slice[1]:
            raise ValueError(f"slice must be [start, stop] with start < stop, but is {self.slice}")
        return self


class Timestamp(Strict):
    """How the time of an event is written."""

    column: Name | None = None
    """The column in the file, if its name is not features.timestamp."""
    unit: Literal["s", "ms", "us", "ns"] | None = None
    """The unit of numbers since 1970. Without it: ISO texts, or a timestamp type."""
    format: Name | None = None
    """The strptime format of texts, such as %y%m%d%H."""
    timezone: Annotated[str, AfterValidator(_known_zone)] = "UTC"
    """The zone of times that are written without one."""

    @model_validator(mode="after")
    def _unit_or_format(self) -> Self:
        if self.unit is not None and self.format is not None:
            raise ValueError("only one of unit and format may be given")
        return self


class Csv(Strict):
    """The dialect of CSV files. A quoted field may hold line breaks."""

    delimiter: Sign | None = None
    """A comma, or a tab in .tsv files."""
    quote: Sign | None = '"'
    """None: a quote is a character like any other."""
    columns: Items[Name] | None = None
    """The columns' names, in order, for files without a header line."""
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """Of the text."""


class Reading(Strict):
    """The keys that every source of files shares."""

    format: Literal["parquet", "csv", "jsonl"] | None = None
    """Default: by the file's suffix."""
    csv: Csv = Csv()
    click: Annotated[str, AfterValidator(_comparison)] | None = None
    """Makes the label from a column: `rating >= 4`, `clicked == yes`. The signs are >=, <=, > and <
    with a number, == and != with a number or a text. Default: the label's column holds 0 and 1."""
    timestamp: Timestamp = Timestamp()
    columns: dict[Name, Column] = Field(default_factory=dict)
    """By feature. A feature that is not listed is the file's column of that name, unchanged."""
    missing: Items[str] = ()
    """Texts that mean a missing value, such as NA, besides the empty text."""
    max_broken_share: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The run stops before it trains on a cycle with a larger share of broken rows."""
    quarantine: Uri | None = None
    """Folder or URI for broken rows, a JSON-lines file per cycle. Default: in the run folder."""
    storage_options: Options = Field(default_factory=dict)
    """For fsspec, such as endpoint_url. Secrets belong in the environment. All options are used,
    but only harmless ones (region, anon, endpoint_url …) are written to the run folder."""

    @field_serializer("storage_options")
    def _harmless(self, options: dict[str, Any]) -> dict[str, Any]:
        return harmless(options)

    @field_validator("path", check_fields=False)
    @classmethod
    def _without_credentials(cls, path: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for uri in (path,) if isinstance(path, str) else path:
            without_credentials(uri)
        return path
