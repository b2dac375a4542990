"""CSV files. Fields are texts; the mapping turns them into numbers and times."""

import csv
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from divergence.errors import InputError, one_line
from orchestrator.sources.files.files import File
from orchestrator.sources.files.readers.lines import (
    BOM,
    ENCODING,
    MAX_LINE_BYTES,
    TextFile,
    arrow_stream,
)
from orchestrator.sources.files.readers.records import TextRows, csv_records
from orchestrator.sources.files.reading import Csv
from orchestrator.sources.files.rows import Block, Rows, aligned

csv.field_size_limit(MAX_LINE_BYTES)  # Arrow, which reads most lines, has no limit
FIELDS, QUOTES = "wrong number of fields", "broken quotes"


OTHERS = (";", "\t", "|")
"""What separates fields in files that are called CSV but are not separated by commas."""


class CsvReader:
    """One open CSV file."""

    def __init__(self, file: File, dialect: Csv) -> None:
        self._lines = TextFile(file, self._split)
        self._dialect = dialect
        self._delimiter = dialect.delimiter or ("\t" if file.suffix == ".tsv" else ",")
        self._start, self._names = 0, dialect.columns
        if self._names is None:
            head, self._start = self._lines.head()
            self._names = self._header(head) if self._start else ()  # an empty file has no columns
        name, times = next(iter(Counter(self._names).most_common(1)), ("", 0))
        if times > 1:
            raise InputError(f"{file.name} has more than one column {name!r}")

    def blocks(self) -> Iterator[Block]:
        """Blocks of lines after the header."""
        return self._lines.blocks(self._start, 2 if self._start else 1)

    def columns(self) -> Sequence[str]:
        """From the header line or the config."""
        return self._names or ()

    def read(self, block: Block, columns: Sequence[str]) -> Rows:
        """These columns as texts; lines that cannot be split into fields are broken."""
        joined = self._lines.records(block).joined
        try:
            table = self._parse(self._text(block), columns, joined=joined)
        except pa.ArrowInvalid:
            return self._read_row_by_row(block, columns)
        if len(table) != block.rows:  # quotes that are not closed
            return self._read_row_by_row(block, columns)
        return Rows(table)

    def extremes(self, block: Block, column: str) -> pa.Array | None:
        """None: a CSV file has no statistics."""
        return None

    def raw(self, block: Block, positions: Sequence[int]) -> list[tuple[int, str]]:
        """Line numbers and lines."""
        return self._lines.raw(block, positions, self._dialect.encoding)

    def _header(self, line: bytes) -> tuple[str, ...]:
        if b"\0" in line:
            raise InputError(f"{self._lines.file.name} is {ENCODING}: convert it, say from UTF-16")
        text = line.decode(self._dialect.encoding, "replace")
        names = self._fields(text) if text else None
        if names is None:
            raise InputError(f"{self._lines.file.name} has no header line; set source.csv.columns")
        other = next((sign for sign in OTHERS if sign in names[0]), None)
        if len(names) == 1 and self._dialect.delimiter is None and other is not None:
            raise InputError(
                f"{self._lines.file.name} has one column {names[0][:40]!r}: set "
                f"source.csv.delimiter, probably to {other!r}"
            )
        return tuple(names)

    def _split(self, data: bytes) -> TextRows:
        return csv_records(data, self._dialect.quote, self._fits)

    def _fits(self, row: bytes) -> bool:
        return self._fault(self._as_utf8(row.removeprefix(BOM))) is None

    def _text(self, block: Block) -> bytes:
        data = self._lines.read(block)
        return self._as_utf8(data.removeprefix(BOM) if block.start == 0 else data)

    def _as_utf8(self, data: bytes) -> bytes:
        return data.decode("latin-1").encode() if self._dialect.encoding == "latin-1" else data

    def _parse(
        self,
        data: bytes,
        columns: Sequence[str],
        *,
        together: int = 1 << 20,
        joined: bool = False,
    ) -> pa.Table:
        """The columns. Arrow parses the bytes in blocks, and every block must hold complete rows.

        `joined`: a row may have several lines.
        """
        if not data or data.isspace():
            return pa.table({name: pa.array([], pa.string()) for name in columns})
        return pa.csv.read_csv(
            arrow_stream(data),
            pa.csv.ReadOptions(column_names=list(self.columns()), block_size=together),
            pa.csv.ParseOptions(
                delimiter=self._delimiter,
                quote_char=self._dialect.quote or False,
                newlines_in_values=joined,
            ),
            pa.csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[],
            ),
        )

    def _read_row_by_row(self, block: Block, columns: Sequence[str]) -> Rows:
        """Find the broken rows and parse the others: slower, only for blocks that fail."""
        data, at = self._lines.read(block), self._lines.records(block)
        spans = zip(at.starts, at.stops, strict=True)
        rows = [self._as_utf8(data[start:stop]) for start, stop in spans]
        if rows and block.start == 0:
            rows[0] = rows[0].removeprefix(BOM)
        broken = {n: fault for n, row in enumerate(rows) if (fault := self._fault(row))}
        good = [n for n in range(len(rows)) if n not in broken]
        text = b"\n".join(rows[n] for n in good) + b"\n"
        try:
            table = self._parse(text, columns, together=len(text), joined=at.joined)
        except pa.ArrowInvalid as error:
            raise InputError(f"{self._lines.file.name}: {one_line(error)}") from error
        if len(table) != len(good):
            raise InputError(f"{self._lines.file.name} cannot be split into rows at its line ends")
        return Rows(aligned(table, np.asarray(good, dtype=np.int64), len(rows)), broken)

    def _fault(self, row: bytes) -> str | None:
        try:
            fields = self._fields(row.rstrip(b"\r").decode())
        except UnicodeDecodeError:
            return ENCODING
        if fields is None:
            return QUOTES
        return None if len(fields) == len(self.columns()) else FIELDS

    def _fields(self, text: str) -> list[str] | None:
        quote = self._dialect.quote
        reader = csv.reader(
            [text],
            delimiter=self._delimiter,
            quotechar=quote,
            quoting=csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
        try:
            return next(reader)
        except csv.Error:
            return None
