"""Makes a failing input smaller while it keeps failing in the same way."""

import time
from collections.abc import Callable, Iterator

from scripts.lab.fuzzing.case import Case

MAX_PIECES = 64


def smaller(data: bytes) -> Iterator[bytes]:
    """The bytes without some of their lines, then without spans; large parts first."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        for part in _without_parts(len(lines)):
            yield b"".join(lines[: part.start] + lines[part.stop :])
    for part in _without_parts(len(data)):
        yield data[: part.start] + data[part.stop :]


def _without_parts(length: int) -> Iterator[slice]:
    size = length
    while size >= 1:
        for start in range(0, min(length, size * MAX_PIECES), size):
            yield slice(start, start + size)
        size //= 2


def shrink(
    case: Case,
    simpler: Callable[[Case], Iterator[Case]],
    still_fails: Callable[[Case], bool],
    seconds: float,
) -> Case:
    """The smallest failing case that was found in this time."""
    end = time.monotonic() + seconds
    found = True
    while found:
        found = False
        for candidate in simpler(case):
            if time.monotonic() > end:
                return case
            if len(candidate.encode()) < len(case.encode()) and still_fails(candidate):
                case, found = candidate, True
                break
    return case
