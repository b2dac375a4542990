"""Builds one cycle's events from its rows and sets the broken ones aside."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.errors import InputError, one_line
from orchestrator.sources.files.decoder import Decoder
from orchestrator.sources.files.files import File, file_system, options_for
from orchestrator.sources.files.rows import Block
from orchestrator.sources.files.times import UTC
from orchestrator.sources.protocol import Events
from trainer.events import check_events
from trainer.features import FeatureSpec

AT = "part and row"  # added to the rows before the checks, to find their lines afterwards


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one block that belong to a cycle, by position and in order."""

    file: File
    block: Block
    rows: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A broken row and the reason."""

    part: int
    row: int
    reason: str


class Chunks:
    """Joins parts into one chunk per call: the same chunk from the same parts."""

    def __init__(self, decoder: Decoder, path: str, run_uri: str | None) -> None:
        """`path` is the source's: a quarantine on the same store has the same options."""
        reading = decoder.reading
        self._decoder = decoder
        self._spec = decoder.spec
        self._max_broken_share = reading.max_broken_share
        self._quarantine = reading.quarantine or (run_uri and f"{run_uri}/quarantine")
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
        counts = dict(sorted(Counter(row.reason for row in broken).items()))
        return Events(cycle, checked.table, origin, counts)

    def _taken(self, number: int, part: Part) -> tuple[pa.Table, list[BrokenRow]]:
        decoded = self._decoder.decode(part.file, part.block)
        rows = part.rows
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
        total = sum(len(part.rows) for part in parts)
        too_many = len(broken) > self._max_broken_share * total
        kept_at = None
        if self._quarantine is not None:
            kept_at = f"{self._quarantine}/cycle-{cycle:06d}.jsonl"
            entries = self._entries(cycle, parts, ordered)
            write_lines(kept_at, entries, self._options)
        if too_many:
            first = next(self._entries(cycle, parts, ordered[:1]))
            raise InputError(
                f"cycle {cycle}: {len(broken)} of {total} rows are broken, more than "
                f"source.max_broken_share {self._max_broken_share:g} allows; the first: "
                f"{first['file']} line {first['line']}: {first['reason']}: {first['raw'][:80]!r}"
                + (f"; all of them: {kept_at}" if kept_at else "")
            )

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
    path: str, entries: Iterable[Mapping[str, Any]], options: Mapping[str, Any]
) -> None:
    """Write a JSON-lines file in one call, replacing that of an earlier attempt at the cycle."""
    text = "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    fs, inner = file_system(path, options)
    try:
        fs.makedirs(fs._parent(inner), exist_ok=True)
        fs.pipe_file(inner, text.encode())
    except OSError as error:
        raise InputError(f"{path} cannot be written: {one_line(error)}") from error


def one_table(tables: Sequence[pa.Table], spec: FeatureSpec) -> pa.Table:
    """All rows in one table. A column whose type differs between blocks (3, "3") becomes text."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name, default in {**_types(spec), AT: pa.int64()}.items():
        pieces = [table.column(name) for table in tables if len(table)]
        kinds = {piece.type for piece in pieces if not pa.types.is_null(piece.type)}
        kind = kinds.pop() if len(kinds) == 1 else default
        chunks = [chunk for piece in pieces for chunk in piece.cast(kind).chunks]
        columns[name] = pa.chunked_array(chunks, kind)
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
