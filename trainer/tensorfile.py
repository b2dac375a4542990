"""Files of tensors in the format of `safetensors`, byte by byte as that library writes them.

The library copies each tensor twice to write it, and once to read it, and a model may take much of
the memory. Here the bytes of a file are the only copy, and tensors that are read are views of them.
"""

import io
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""So many rows are copied at a time."""
METADATA = "__metadata__"
DTYPES = {"F32": "<f4", "F64": "<f8", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1"}
"""What tensors may be of: their types in a file, and in numpy."""
_ORDER = ("<i8", "<f8", "<f4", "<i4", "<i2", "|u1")
"""The order of types in a file: the largest entries first, so that all are aligned."""

Data = bytes | NDArray[np.uint8]
"""The bytes of a file."""


class RowStarts(NamedTuple):
    """The beginnings of some rows of a table, rows[at, :, :length], before they are copied."""

    rows: NDArray[np.float32]
    at: NDArray[np.int64]
    length: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the rows."""
        return self.rows.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the copy."""
        return len(self.at), self.rows.shape[1], self.length

    def copy_to(self, out: NDArray[Any]) -> None:
        """Copy them, a block at a time."""
        for first in range(0, len(self.at), BLOCK):
            here = slice(first, first + BLOCK)
            out[here] = self.rows[self.at[here]][:, :, : self.length]


Tensors = dict[str, NDArray[Any]]
Part = NDArray[Any] | RowStarts
Parts = Mapping[str, Part]
Metadata = dict[str, str]


def tensor_file(parts: Parts, draft: Metadata, complete: Callable[[Tensors], Metadata]) -> bytes:
    """A file of these tensors. `complete` gives the metadata when it sees them in the file, views
    that it must not keep; it is as long as the draft."""
    header, file = _header(parts, draft), io.BytesIO()
    file.seek(len(header) + sum(map(_size, parts.values())) - 1)
    file.write(b"\0")  # now it has room for all
    metadata = complete(_fill(parts, file.getbuffer()[len(header) :]))
    file.seek(0)
    file.write(_header(parts, metadata))
    return file.getvalue()


def tensors_in(data: Data) -> tuple[Metadata, Tensors]:
    """The metadata and the tensors of a file, which is not copied. It may come from a stranger:
    ValueError, LookupError, TypeError, AttributeError or RecursionError if something is wrong."""
    whole = np.frombuffer(data, np.uint8)
    whole.setflags(write=False)
    first = 8 + int.from_bytes(whole[:8].tobytes(), "little")
    header = json.loads(whole[8:first].tobytes())
    return header.pop(METADATA), _tensors(header, whole[first:])


def _fill(parts: Parts, data: memoryview) -> Tensors:
    """Write all parts to where they are in a file; returns views of that."""
    tensors, start = {}, 0
    for name in _in_order(parts):
        part, end = parts[name], start + _size(parts[name])
        tensors[name] = np.frombuffer(data[start:end], part.dtype).reshape(part.shape)
        if isinstance(part, RowStarts):
            part.copy_to(tensors[name])
        else:
            tensors[name][...] = part
        start = end
    return tensors


def _header(parts: Parts, metadata: Metadata) -> bytes:
    entries: dict[str, Any] = {METADATA: metadata}
    start, names = 0, {dtype: name for name, dtype in DTYPES.items()}
    for name in _in_order(parts):
        part, end = parts[name], start + _size(parts[name])
        entries[name] = {
            "dtype": names[part.dtype.str],
            "shape": part.shape,
            "data_offsets": (start, end),
        }
        start = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _in_order(parts: Parts) -> list[str]:
    return sorted(parts, key=lambda name: (_ORDER.index(parts[name].dtype.str), name))


def _size(part: Part) -> int:
    return math.prod(part.shape) * part.dtype.itemsize


def _tensors(header: dict[str, Any], data: NDArray[np.uint8]) -> Tensors:
    """Views of a file's tensors, which must follow each other and fill it."""
    tensors, last = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = entry["data_offsets"]
        if not (start == last <= end <= len(data)):
            raise ValueError(f"{name} must begin at byte {last} and end by {len(data)}")
        tensors[name] = data[start:end].view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        last = end
    if last != len(data):
        raise ValueError(f"{len(data) - last} bytes belong to nothing")
    return tensors
