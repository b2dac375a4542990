"""Makes a failing input smaller while it keeps failing in the same way."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import get, paths_of, put, without

MAX_PIECES = 64


def smaller(data: bytes) -> Iterator[bytes]:
    """The bytes without some of their lines, then without spans; large parts first."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        for part in _without_parts(len(lines)):
            yield b"".join(lines[: part.start] + lines[part.stop :])
    for part in _without_parts(len(data)):
        yield data[: part.start] + data[part.stop :]


def shrunk_bytes(case: Case) -> Iterator[Case]:
    """The case with fewer bytes in its body."""
    return (replace(case, body=body) for body in smaller(case.body))


def shrunk_inside(case: Case) -> Iterator[Case]:
    """The case with fewer or shorter entries in its body, which is JSON."""
    data = json.loads(case.body)
    for path in paths_of(data)[1:]:
        yield replace(case, body=json.dumps(without(data, path)).encode())
        old = get(data, path)
        half = old[: len(old) // 2] if isinstance(old, str) else None
        yield replace(case, body=json.dumps(put(data, path, half)).encode())


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
