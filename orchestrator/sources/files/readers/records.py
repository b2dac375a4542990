"""Where the rows of a text begin and end: at line ends, but in CSV not at those inside quotes.

A quoted field may hold line breaks. A row that does has an odd number of quotes in the lines where
such a field begins or ends: only these lines are looked at one by one. A quote that is never closed
breaks its own line only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RECORD_BYTES = 1 << 20
"""The longest row with line breaks."""
Fits = Callable[[bytes], bool]
"""Whether some bytes are one complete row."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """Rows: their bytes, and the number of the line that each begins in. Blank lines do not count.

    `line_ends` counts all lines that end in the text. `joined`: some row has more than one line.
    `open_at`: where a row begins that may continue after the end of the text.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    lines: NDArray[np.int64]
    line_ends: int
    joined: bool = False
    open_at: int | None = None


def line_records(data: bytes) -> TextRows:
    """Each line that is not blank is a row."""
    text = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(text == ord("\n"))
    line_ends = len(stops)
    if len(text) and text[-1] != ord("\n"):
        stops = np.append(stops, len(text))
    starts = np.concatenate(([0], stops[:-1] + 1)) if len(stops) else stops
    blank = stops == starts
    one = np.flatnonzero(stops - starts == 1)
    blank[one] = text[starts[one]] == ord("\r")
    (rows,) = np.nonzero(~blank)
    return TextRows(starts[rows], stops[rows], rows, line_ends)


def csv_records(data: bytes, quote: str | None, fits: Fits) -> TextRows:
    """The rows of complete CSV lines."""
    plain = line_records(data)
    if quote is None or quote.encode() not in data:
        return plain
    before = _odd_before(data, quote, np.append(plain.starts, len(data)))
    odd = np.flatnonzero(before[1:] != before[:-1])
    if not len(odd):
        return plain
    keep, stops, open_at = np.ones(len(plain.starts), dtype=bool), plain.stops.copy(), None
    at = 0
    while at < len(odd):
        first, at = int(odd[at]), at + 1
        start = int(plain.starts[first])
        if fits(data[start : stops[first]]):
            continue
        if at == len(odd):
            if len(data) - start <= RECORD_BYTES:
                open_at = start
            break
        last = int(odd[at])
        stop = int(plain.stops[last])
        if stop - start <= RECORD_BYTES and fits(data[start:stop]):
            stops[first], keep[first + 1 : last + 1] = stop, False
            at += 1
    rows = plain.starts[keep], stops[keep], plain.lines[keep]
    return TextRows(*rows, plain.line_ends, not keep.all(), open_at)


def _odd_before(data: bytes, sign: str, places: NDArray[np.int64]) -> NDArray[np.uint8]:
    """1 for each place with an odd number of these signs before it, else 0.

    Works on words of 64 signs: four times faster than to look for each of them.
    """
    found = np.packbits(np.frombuffer(data, np.uint8) == ord(sign), bitorder="little")
    words = np.pad(found, (0, 8 + -len(found) % 8)).view("<u8")
    odd = np.bitwise_count(words) & 1
    until = np.bitwise_xor.accumulate(odd) ^ odd
    word, below = places >> 6, (np.uint64(1) << (places & 63).astype(np.uint64)) - np.uint64(1)
    return np.asarray(until[word] ^ (np.bitwise_count(words[word] & below) & 1), np.uint8)
