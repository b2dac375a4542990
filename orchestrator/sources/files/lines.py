"""Text files as blocks of complete lines, plain or compressed, without loading the file."""

from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np

from divergence.errors import InputError
from orchestrator.sources.files.files import File, file_errors
from orchestrator.sources.files.rows import Block

BLOCK_BYTES = 8 << 20
BOM = b"\xef\xbb\xbf"
LINE_BYTES, MAX_LINE_BYTES = 64 << 10, 64 << 20
ENCODING = "not UTF-8 text"


class Lines:
    """A text file. Blocks start and end at line ends; blank lines are not rows."""

    def __init__(self, file: File) -> None:
        self.file = file
        self._handle: IO[bytes] | None = None
        self._last: tuple[int, bytes] = (-1, b"")

    def head(self) -> tuple[bytes, int]:
        """The first line, and the byte at which the next one starts."""
        line = self._bytes(0, None)
        return line.removeprefix(BOM).rstrip(b"\r\n"), len(line)

    def blocks(self, start: int, first: int) -> Iterator[Block]:
        """The blocks from byte `start`, which is in line number `first`, to the end."""
        while data := self._complete_lines(start):
            stop = start + len(data)
            self._last = (start, data)
            yield Block(start, stop, first, len(row_lines(data)))
            start, first = stop, first + data.count(b"\n")

    def read(self, block: Block) -> bytes:
        """A block's bytes. Keeps the last block, since the index reads what it has just cut."""
        if self._last[0] != block.start or len(self._last[1]) != block.stop - block.start:
            data = self._bytes(block.start, block.stop - block.start)
            if len(data) != block.stop - block.start:
                raise InputError(f"{self.file.name} became shorter while it was being read")
            self._last = (block.start, data)
        return self._last[1]

    def raw(
        self, block: Block, positions: Sequence[int], encoding: str = "utf-8"
    ) -> list[tuple[int, str]]:
        """The numbers and texts of some rows of a block."""
        data = self.read(block)
        lines, numbers = data.split(b"\n"), row_lines(data)
        chosen = [int(numbers[position]) for position in positions]
        return [(block.first + n, lines[n].decode(encoding, "replace").strip("\r")) for n in chosen]

    def _complete_lines(self, start: int) -> bytes:
        """Complete lines from `start`, about a block of them; empty at the end."""
        data = self._bytes(start, BLOCK_BYTES)
        if len(data) < BLOCK_BYTES or data.endswith(b"\n"):
            return data
        end = data.rfind(b"\n")
        return data[: end + 1] if end >= 0 else data + self._bytes(start + len(data), None)

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


def row_lines(data: bytes) -> np.ndarray:
    """The indices of the lines that are not blank."""
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    if len(text) and text[-1] != ord("\n"):
        ends = np.append(ends, len(text))
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    length = ends - starts
    blank = length == 0
    one = np.flatnonzero(length == 1)
    blank[one] = text[starts[one]] == ord("\r")
    return np.flatnonzero(~blank)


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
