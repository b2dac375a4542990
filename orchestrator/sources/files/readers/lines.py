"""Text files as blocks of complete lines, plain or compressed, without loading the file."""

from collections.abc import Callable, Iterator, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from divergence.errors import InputError
from orchestrator.sources.files.files import File, file_errors
from orchestrator.sources.files.readers.records import TextRows, line_records
from orchestrator.sources.files.rows import Block

BLOCK_BYTES = 8 << 20
BOM = b"\xef\xbb\xbf"
LINE_BYTES, MAX_LINE_BYTES = 64 << 10, 64 << 20
ENCODING = "not UTF-8 text"


def arrow_stream(data: bytes) -> pa.BufferReader:
    """A copy of the bytes in Arrow's own memory, to be parsed.

    Arrow's threads may drop what they have parsed a moment after the result is there. If it were
    Python's memory, and the command ended in that moment, the process would abort.
    """
    copy = pa.allocate_buffer(len(data))
    np.frombuffer(copy, np.uint8)[:] = np.frombuffer(data, np.uint8)
    return pa.BufferReader(copy)


class TextFile:
    """A text file. Blocks start and end at the ends of rows, which are lines unless `split` says
    otherwise; blank lines are not rows."""

    def __init__(self, file: File, split: Callable[[bytes], TextRows] = line_records) -> None:
        self.file = file
        self._split = split
        self._handle: IO[bytes] | None = None
        self._last: dict[int, bytes] = {}
        """The last two blocks by their start: one is worked on while the next is read ahead."""
        self._last_records: tuple[int, TextRows] | None = None

    def head(self) -> tuple[bytes, int]:
        """The first line, and the byte at which the next one starts."""
        line = self._bytes(0, None)
        return line.removeprefix(BOM).rstrip(b"\r\n"), len(line)

    def blocks(self, start: int, first: int) -> Iterator[Block]:
        """The blocks from byte `start`, which is in line number `first`, to the end."""
        if self.file.start > start:
            first += self._line_ends(start, self.file.start)
            start = self.file.start
        while data := self._complete_rows(start):
            stop = start + len(data)
            self._keep(start, data)
            rows = self._records_at(start, data)
            yield Block(start, stop, first, len(rows.starts))
            start, first = stop, first + rows.line_ends

    def read(self, block: Block) -> bytes:
        """A block's bytes. The last two are kept: the index reads what it has just cut, and to go
        back in a compressed file is to decompress it again from its start."""
        data = self._last.get(block.start, b"")
        if len(data) != block.stop - block.start:
            data = self._bytes(block.start, block.stop - block.start)
            if len(data) != block.stop - block.start:
                raise InputError(f"{self.file.name} became shorter while it was being read")
            self._keep(block.start, data)
        return data

    def raw(
        self, block: Block, positions: Sequence[int], encoding: str = "utf-8"
    ) -> list[tuple[int, str]]:
        """The numbers and texts of some rows of a block."""
        data, rows = self.read(block), self.records(block)
        return [
            (
                block.first + int(rows.lines[at]),
                data[rows.starts[at] : rows.stops[at]].decode(encoding, "replace").strip("\r"),
            )
            for at in positions
        ]

    def records(self, block: Block) -> TextRows:
        """Where a block's rows begin and end."""
        return self._records_at(block.start, self.read(block))

    def _keep(self, start: int, data: bytes) -> None:
        before = [at for at in self._last if at != start][-1:]
        self._last = {at: self._last[at] for at in before} | {start: data}

    def _records_at(self, start: int, data: bytes) -> TextRows:
        if self._last_records is None or self._last_records[0] != start:
            self._last_records = (start, self._split(data))
        return self._last_records[1]

    def _complete_rows(self, start: int) -> bytes:
        """Complete rows from `start`, about a block of them; empty at the end."""
        data = self._complete_lines(start)
        while data:
            self._last_records = None
            open_at = self._records_at(start, data).open_at
            if open_at is None or not (more := self._complete_lines(start + len(data))):
                break
            self._last_records = None
            if open_at > 0:
                return data[:open_at]
            data += more
        return data

    def _complete_lines(self, start: int) -> bytes:
        """Complete lines from `start`, about a block of them; empty at the end."""
        stop = self.file.stop
        most = BLOCK_BYTES if stop is None else min(BLOCK_BYTES, stop - start)
        data = self._bytes(start, most)
        if len(data) < BLOCK_BYTES or data.endswith(b"\n"):
            return data
        end = data.rfind(b"\n")
        whole = data[: end + 1] if end >= 0 else data + self._bytes(start + len(data), None)
        return whole if stop is None else whole[: stop - start]

    def _line_ends(self, start: int, stop: int) -> int:
        """How many lines end between these bytes."""
        counts = (
            self._bytes(at, min(BLOCK_BYTES, stop - at)).count(b"\n")
            for at in range(start, stop, BLOCK_BYTES)
        )
        return sum(counts)

    def _bytes(self, start: int, length: int | None) -> bytes:
        """Bytes from `start`, or the rest of the line if no length is given."""
        with file_errors(self.file.name):
            self._handle = self._handle or self.file.open()
            self._handle.seek(start)
            if length is not None:
                return _read(self._handle, length)
            line = _read_line(self._handle)
        if line is None:
            raise InputError(
                f"{self.file.name} has a line of more than {MAX_LINE_BYTES >> 20} MB: "
                "are its rows separated by line ends?"
            )
        return line


def _read_line(handle: IO[bytes]) -> bytes | None:
    """The rest of the line; None if it is too long. Not all handles can limit `readline`."""
    parts, length = [], 0
    while part := handle.read(LINE_BYTES):
        end = part.find(b"\n") + 1
        parts.append(part[:end] if end else part)
        length += len(parts[-1])
        if end or length > MAX_LINE_BYTES:
            break
    return b"".join(parts) if length <= MAX_LINE_BYTES else None


def _read(handle: IO[bytes], length: int) -> bytes:
    """`length` bytes or all that remain: one read of a compressed file may return fewer."""
    parts = []
    while length > 0 and (part := handle.read(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
