"""Builds one cycle's events from its rows and sets the broken ones aside."""

import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from divergence.errors import InputError, one_line
from orchestrator.sources.files.files import File, file_system, is_local, options_for
from orchestrator.sources.files.mapping.columns import rule_column
from orchestrator.sources.files.mapping.features import Mapped, check_rules
from orchestrator.sources.files.mapping.label_hints import (
    ENOUGH,
    meant,
    no_clicks,
    no_numbers,
    wrong_label,
)
from orchestrator.sources.files.mapping.times import UTC
from orchestrator.sources.files.reading import Reading
from orchestrator.sources.files.rows import Block
from orchestrator.sources.protocol import Events
from orchestrator.storage.output import Output
from trainer.dictionaries import by_appearance
from trainer.events import check_events, column
from trainer.features import FeatureSpec

log = logging.getLogger(__name__)
AT = "part and row"  # added to the rows before the checks, to find their lines afterwards


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one block that belong to a cycle, by position and in order; None: all of them."""

    file: File
    block: Block
    rows: NDArray[np.int64] | None = None

    @property
    def total(self) -> int:
        """How many rows."""
        return self.block.rows if self.rows is None else len(self.rows)


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A broken row and the reason."""

    part: int
    row: int
    reason: str


class Decodes(Protocol):
    """What gives the rows of blocks: the decoder of files, or a table that is there already."""

    @property
    def reading(self) -> Reading:
        """How rows are read."""
        ...

    @property
    def spec(self) -> FeatureSpec:
        """The features."""
        ...

    def decode(self, file: File, block: Block) -> Mapped:
        """A block's rows in the features' columns."""
        ...

    def raw(self, file: File, block: Block, rows: Sequence[int]) -> list[tuple[int, str]]:
        """The line numbers and contents of these rows of a block."""
        ...

    def label_values(self, file: File, block: Block) -> tuple[str, list[str]]:
        """The column that the label is read from, and its values in a block."""
        ...


class Chunks:
    """Joins parts into one chunk per call: the same chunk from the same parts."""

    def __init__(self, decoder: Decodes, path: str, run_uri: str | None) -> None:
        """`path` is the source's: a quarantine on the same store has the same options."""
        reading = decoder.reading
        self._decoder = decoder
        self._spec = decoder.spec
        self._max_broken_share = reading.max_broken_share
        self._quarantine = reading.quarantine or run_uri
        self._folder = "" if reading.quarantine else "quarantine/"
        self._options = options_for(self._quarantine or "", path, reading.storage_options)

    def events(self, cycle: int, parts: Sequence[Part], origin: str) -> Events:
        """The good rows of these parts in time order. Broken rows go to the quarantine file.

        `InputError` if more than `max_broken_share` of the rows are broken.
        """
        good, broken = [], []
        for number, part in enumerate(parts):
            table, faults = self._taken(number, part)
            good.append(table)
            broken += faults
        try:
            checked = check_events(one_table(good, self._spec), self._spec)
        except InputError as error:
            raise InputError(f"{origin}: {error}") from error
        found = checked.set_aside.select([AT, "reason"]).to_pydict()
        for at, reason in zip(found[AT], found["reason"], strict=True):
            broken.append(BrokenRow(at >> 32, at & 0xFFFFFFFF, reason))
        if broken:
            self._set_aside(cycle, parts, broken)
        if cycle == 0:
            check_rules(self._decoder.reading, self._spec.features)
            self._check_click_rule(parts, checked.table)
        counts = dict(sorted(Counter(row.reason for row in broken).items()))
        return Events(cycle, by_appearance(checked.table), origin, counts)

    def _check_click_rule(self, parts: Sequence[Part], table: pa.Table) -> None:
        """A click rule that divides nothing is a mistake, unless there are few events yet."""
        click, clicks = self._decoder.reading.click, column(table, self._spec.label)
        rate = pc.mean(clicks).as_py()
        if click is None or rate not in (0.0, 1.0):
            return
        _, values = self._decoder.label_values(parts[0].file, parts[0].block)
        text = no_clicks(click, values, all_clicks=rate == 1.0)
        if len(clicks) >= ENOUGH or meant(click, values):
            raise InputError(f"{parts[0].file.name}: {text}")
        log.warning("%s: %s", parts[0].file.name, text)

    def _taken(self, number: int, part: Part) -> tuple[pa.Table, list[BrokenRow]]:
        decoded = self._decoder.decode(part.file, part.block)
        rows = np.arange(len(decoded.table)) if part.rows is None else part.rows
        broken = []
        if decoded.broken:
            bad = np.isin(rows, np.fromiter(decoded.broken, np.int64))
            broken = [BrokenRow(number, int(row), decoded.broken[int(row)]) for row in rows[bad]]
            rows = rows[~bad]
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
            table = decoded.table.slice(int(rows[0]), len(rows))
        else:
            table = decoded.table.take(pa.array(rows))
        return table.append_column(AT, pa.array((number << 32) + rows, pa.int64())), broken

    def _set_aside(self, cycle: int, parts: Sequence[Part], broken: Sequence[BrokenRow]) -> None:
        ordered = sorted(broken, key=lambda row: (row.part, row.row))
        total = sum(part.total for part in parts)
        too_many = len(broken) > self._max_broken_share * total
        kept_at = None
        if self._quarantine is not None:
            name = f"{self._folder}cycle-{cycle:06d}.jsonl"
            kept_at = f"{self._quarantine}/{name}"
            write_lines(self._quarantine, name, self._entries(cycle, parts, ordered), self._options)
        if too_many:
            self._check_label(parts, broken)
            first = next(self._entries(cycle, parts, ordered[:1]))
            raise InputError(
                f"cycle {cycle}: {len(broken)} of {total} rows are broken, more than "
                f"source.max_broken_share {self._max_broken_share:g} allows; the first: "
                f"{first['file']} line {first['line']}: {first['reason']}: {first['raw'][:80]!r}"
                + (f"; all of them: {kept_at}" if kept_at else "")
            )

    def _check_label(self, parts: Sequence[Part], broken: Sequence[BrokenRow]) -> None:
        """Raise if the label's column is to blame for most broken rows."""
        click, label = self._decoder.reading.click, self._spec.label
        compared = label if click is None else rule_column(click)
        faults = (f"{compared} is not a number", f"{label} is not 0 or 1")
        blamed = [row.part for row in broken if row.reason in faults]
        if len(blamed) > len(broken) / 2:
            part = parts[blamed[0]]
            name, values = self._decoder.label_values(part.file, part.block)
            text = wrong_label(name, values) if click is None else no_numbers(click, values)
            raise InputError(f"{part.file.name}: {text}")

    def _entries(
        self, cycle: int, parts: Sequence[Part], broken: Iterable[BrokenRow]
    ) -> Iterator[dict[str, Any]]:
        by_part: dict[int, list[BrokenRow]] = {}
        for row in broken:
            by_part.setdefault(row.part, []).append(row)
        for number, rows in by_part.items():
            part = parts[number]
            contents = self._decoder.raw(part.file, part.block, [row.row for row in rows])
            for row, (line, raw) in zip(rows, contents, strict=True):
                yield {
                    "cycle": cycle,
                    "file": part.file.name,
                    "line": line,
                    "reason": row.reason,
                    "raw": raw,
                }


def write_lines(
    folder: str, path: str, entries: Iterable[Mapping[str, Any]], options: Mapping[str, Any]
) -> None:
    """Write a JSON-lines file in one call, replacing that of an earlier attempt at the cycle.

    `path` stays inside the folder, whatever its symbolic links say.
    """
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    fs, root = file_system(folder, options)
    try:
        if is_local(fs):
            Output(root).put(path, text.encode())
        else:
            target = f"{root.rstrip('/')}/{path}"
            fs.makedirs(fs._parent(target), exist_ok=True)
            fs.pipe_file(target, text.encode())
    except OSError as error:
        raise InputError(f"{folder}/{path} cannot be written: {one_line(error)}") from error


def one_table(tables: Sequence[pa.Table], spec: FeatureSpec) -> pa.Table:
    """All rows in one table. A column whose type differs between blocks (3, "3") becomes text."""
    columns: dict[str, pa.Array] = {}
    for name, default in {**_types(spec), AT: pa.int64()}.items():
        pieces = [table.column(name) for table in tables if len(table)]
        kinds = {piece.type for piece in pieces if not pa.types.is_null(piece.type)}
        kind = kinds.pop() if len(kinds) == 1 else default
        same = (piece if piece.type == kind else piece.cast(kind) for piece in pieces)
        chunks = [chunk for piece in same for chunk in piece.chunks]
        columns[name] = pa.chunked_array(chunks, kind).combine_chunks()
    return pa.table(columns)


def _types(spec: FeatureSpec) -> dict[str, pa.DataType]:
    types: dict[str, pa.DataType] = {spec.label: pa.float64()}
    if spec.timestamp is not None:
        types[spec.timestamp] = UTC
    for feature in spec.features:
        types[feature.name] = pa.list_(pa.string()) if feature.multi else pa.string()
        if feature.weights is not None:
            types[feature.weights] = pa.list_(pa.float64())
    return types
