"""Data that is written once: canonical JSON with a checksum, so that any changed byte is noticed.

One line {"record": ..., "sha256": ...}: keys sorted, no spaces.
"""

import hashlib
import json
from typing import Any


class DamagedError(Exception):
    """A file that is torn or altered; the message says which and how."""


def dumps(body: Any) -> bytes:
    """The file of a body of plain JSON."""
    return _sealed(_canonical(body))


def loads(data: bytes, name: str) -> Any:
    """The body, or DamagedError unless the file is byte for byte as it was written."""
    try:
        body = json.loads(data)["record"]
        sound = dumps(body) == data
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamagedError(f"{name}: torn or altered: no whole record") from None
    if not sound:
        raise DamagedError(f"{name}: torn or altered: its checksum does not match")
    return body


def _sealed(body: bytes) -> bytes:
    checksum = hashlib.sha256(body).hexdigest().encode()
    return b'{"record":' + body + b',"sha256":"' + checksum + b'"}\n'


def _canonical(body: Any) -> bytes:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
