"""From a block of a file to mapped rows, with a bounded cache of the last ones.

The next block of the same file is read meanwhile, in a thread.
"""

import weakref
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import pyarrow as pa

from divergence.errors import InputError, one_line
from orchestrator.sources.files.files import File, format_of
from orchestrator.sources.files.mapping.columns import plain
from orchestrator.sources.files.mapping.features import (
    Mapped,
    columns_in_file,
    event_times,
    mapped,
    present_columns,
    unused_rules,
)
from orchestrator.sources.files.mapping.label_hints import frequent
from orchestrator.sources.files.mapping.mistakes import mistakes, with_others
from orchestrator.sources.files.mapping.times import Times, ticks_of, zone_mix
from orchestrator.sources.files.readers.ahead import AheadReader
from orchestrator.sources.files.readers.csv_reader import CsvReader
from orchestrator.sources.files.readers.jsonl_reader import JsonlReader
from orchestrator.sources.files.readers.parquet_process import IsolatedParquet
from orchestrator.sources.files.reading import Reading
from orchestrator.sources.files.rows import Block, Reader, Rows
from orchestrator.storage.background import BackgroundThread
from trainer.events import column
from trainer.features import FeatureSpec

CACHE_BYTES = 256 << 20
OPEN_FILES = 4
END_S = 1.0
"""How long the end of the process waits for a block that is being read."""


class Decoder:
    """Reads and maps blocks of files. Errors name the file."""

    def __init__(self, reading: Reading, spec: FeatureSpec) -> None:
        self.reading = reading
        self.spec = spec
        self._wanted = columns_in_file(reading, spec)
        self._thread = BackgroundThread("read")
        weakref.finalize(self, self._thread.stop, END_S)
        self._readers: OrderedDict[File, tuple[Reader, list[str]]] = OrderedDict()
        self._decoded: OrderedDict[tuple[File, int], Mapped] = OrderedDict()
        self._zoned: dict[bool, str] = {}
        self._times_seen = False

    def blocks(self, file: File) -> Iterator[Block]:
        """The blocks of a file, in order."""
        return self._reader(file)[0].blocks()

    def decode(self, file: File, block: Block) -> Mapped:
        """A block's rows in the features' columns."""
        key = (file, block.start)
        if key not in self._decoded:
            reader, columns = self._reader(file)
            with _errors_of(file):
                found = mapped(reader.read(block, columns), self.reading, self.spec)
            self._check_times(file, found.zoned, found.unit_hint)
            self._decoded[key] = found
            self._evict()
        self._decoded.move_to_end(key)
        return self._decoded[key]

    def span(self, file: File, block: Block) -> tuple[int, int] | None:
        """The first and last time in a block, in microseconds; None if it has no times."""
        times = self._times(file, block)
        known = ticks_of(times.drop_null())
        return (int(known.min()), int(known.max())) if len(known) else None

    def raw(self, file: File, block: Block, rows: Sequence[int]) -> list[tuple[int, str]]:
        """The line numbers and contents of these rows of a block."""
        return self._reader(file)[0].raw(block, rows)

    def label_values(self, file: File, block: Block) -> tuple[str, list[str]]:
        """The column of a file that the label is read from, and its values in a block."""
        name, (reader, columns) = self._wanted[self.spec.label], self._reader(file)
        if name not in columns:
            return name, []
        with _errors_of(file):
            rows = reader.read(block, [name])
        return name, frequent(plain(column(rows.table, name)))

    def check(self, file: File | None) -> None:
        """InputError for rules that belong to no feature, with the file's other mistakes."""
        unused = unused_rules(self.reading, self.spec)
        if unused:
            error = InputError("\n".join(unused))
            raise self.with_others(error, file) if file is not None else error

    def with_others(self, error: InputError, file: File) -> InputError:
        """An error with the other mistakes that the first rows of a file show."""
        try:
            reader = self._open(file)
            there, block = reader.columns(), next(iter(reader.blocks()), None)
            if block is None or not there:
                return error
            wanted = [name for name in dict.fromkeys(self._wanted.values()) if name in there]
            rows = reader.read(block, wanted)
        except (InputError, OSError, pa.ArrowException):  # the error itself says what is wrong
            return error
        return with_others(error, mistakes(rows, there, self.reading, self.spec), file.name)

    def _times(self, file: File, block: Block) -> pa.Array:
        """Times that span those of a block, found in the cheapest way."""
        assert self.spec.timestamp is not None, "only a stream with times is cut by them"
        name, (reader, _) = self._wanted[self.spec.timestamp], self._reader(file)
        with _errors_of(file):
            extremes = reader.extremes(block, name)
            found = None if extremes is None else self._read_as_times(name, extremes)
            if found is None or found.implausible.any():
                if self._cached_bytes() < CACHE_BYTES // 2:  # decodes a small stream only once
                    return column(self.decode(file, block).table, self.spec.timestamp)
                found = event_times(reader.read(block, [name]), self.reading, self.spec)
        self._check_times(file, found.zoned, found.unit_hint)
        return found.values

    def _read_as_times(self, name: str, values: pa.Array) -> Times:
        return event_times(Rows(pa.table({name: values})), self.reading, self.spec)

    def _cached_bytes(self) -> int:
        return sum(found.table.nbytes for found in self._decoded.values())

    def _reader(self, file: File) -> tuple[Reader, list[str]]:
        if file not in self._readers:
            reader = AheadReader(self._open(file), self._thread)
            there = reader.columns()
            columns = list(dict.fromkeys(self._wanted.values()))
            if there:  # else a file without a readable row: all columns are null
                with _errors_of(file):
                    columns = present_columns(self._wanted, there, self.reading, self.spec)
            self._readers[file] = (reader, columns)
            while len(self._readers) > OPEN_FILES:
                self._readers.popitem(last=False)
        self._readers.move_to_end(file)
        return self._readers[file]

    def _open(self, file: File) -> Reader:
        match format_of(file, self.reading.format):
            case "parquet":
                return IsolatedParquet(file)
            case "csv":
                return CsvReader(file, self.reading.csv)
            case "jsonl":
                return JsonlReader(file)

    def _check_times(self, file: File, zoned: bool | None, unit_hint: str | None) -> None:
        if unit_hint is not None and not self._times_seen:
            raise InputError(f"{file.name}: {unit_hint}")
        self._times_seen = True
        if zoned is not None:
            self._zoned.setdefault(zoned, file.name)
        if len(self._zoned) == 2:
            raise InputError(zone_mix(self._zoned[True], self._zoned[False]))

    def _evict(self) -> None:
        """Drops the oldest blocks, but never the one in use."""
        while len(self._decoded) > 1 and self._cached_bytes() > CACHE_BYTES:
            self._decoded.popitem(last=False)


def instant(ticks: int) -> str:
    """Microseconds since 1970 as an ISO text."""
    return datetime.fromtimestamp(ticks / 1e6, UTC).isoformat(timespec="seconds")


@contextmanager
def _errors_of(file: File) -> Iterator[None]:
    """Errors name the file. What Arrow cannot convert is the file's fault, too."""
    try:
        yield
    except (InputError, pa.ArrowException) as error:
        text = one_line(error)
        raise InputError(text if file.name in text else f"{file.name}: {text}") from error
