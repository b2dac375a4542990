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

    `joined`: some row has more than one line. `open_at`: where a row begins that may continue
    after the end of the text.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    lines: NDArray[np.int64]
    joined: bool = False
    open_at: int | None = None


def line_records(data: bytes) -> TextRows:
    """Each line that is not blank is a row."""
    text = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(text == ord("\n"))
    if len(text) and text[-1] != ord("\n"):
        stops = np.append(stops, len(text))
    starts = np.concatenate(([0], stops[:-1] + 1)) if len(stops) else stops
    blank = stops == starts
    one = np.flatnonzero(stops - starts == 1)
    blank[one] = text[starts[one]] == ord("\r")
    (rows,) = np.nonzero(~blank)
    return TextRows(starts[rows], stops[rows], rows)


def csv_records(data: bytes, quote: str | None, fits: Fits) -> TextRows:
    """The rows of complete CSV lines."""
    plain = line_records(data)
    if quote is None or quote.encode() not in data:
        return plain
    quotes = np.flatnonzero(np.frombuffer(data, np.uint8) == ord(quote))
    counts = np.diff(np.searchsorted(quotes, np.append(plain.starts, len(data))))
    odd = np.flatnonzero(counts % 2)
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
    return TextRows(plain.starts[keep], stops[keep], plain.lines[keep], not keep.all(), open_at)
