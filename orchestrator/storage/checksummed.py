"""Canonical JSON with a checksum, for files that are written once: any changed byte is detected.

A file is one line, {"record": ..., "sha256": ...}, with sorted keys and no spaces.
"""

import hashlib
import json
from typing import Any

from orchestrator.storage.store import CorruptError as CorruptError
from orchestrator.validation.strict import MAX_INT


def dumps(body: Any) -> bytes:
    """Serialise plain JSON data together with its checksum."""
    return _with_checksum(_canonical(body))


def loads(data: bytes, name: str) -> Any:
    """Return the data of a file; CorruptError if any byte differs from what `dumps` wrote."""
    try:
        body = json.loads(data, parse_int=_int64)["record"]
        intact = dumps(body) == data
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorruptError(f"{name}: corrupt: not a complete record") from None
    if not intact:
        raise CorruptError(f"{name}: corrupt: its checksum does not match")
    return body


def _int64(text: str) -> int:
    """An integer of at most 64 bits: tables take no others."""
    number = int(text)
    if not -MAX_INT <= number <= MAX_INT:
        raise ValueError(f"{number} does not fit 64 bits")
    return number


def _with_checksum(body: bytes) -> bytes:
    checksum = hashlib.sha256(body).hexdigest().encode()
    return b'{"record":' + body + b',"sha256":"' + checksum + b'"}\n'


def _canonical(body: Any) -> bytes:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
