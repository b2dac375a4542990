"""A checksum of a cycle's events, to notice that a source no longer gives what was trained."""

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from orchestrator.sources.files.mapping.numbers import is_text

Feed = Callable[[Any], None]


def digest_of(table: pa.Table) -> str:
    """The same for the same events in the same order, however Arrow stores them."""
    checksum = hashlib.blake2b(digest_size=16)
    for name in sorted(table.column_names):
        checksum.update(f"{name}:{len(table)};".encode())
        _feed(table.column(name).combine_chunks(), checksum.update)
    return checksum.hexdigest()


def _feed(values: pa.Array, feed: Feed) -> None:
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    kind = values.type
    if pa.types.is_dictionary(kind) and is_text(kind.value_type):
        _feed_texts(values.dictionary.cast(pa.large_string()).take(values.indices), feed)
    elif pa.types.is_dictionary(kind):
        _feed(values.cast(kind.value_type), feed)
    elif is_text(kind) or pa.types.is_null(kind):
        _feed_texts(values.cast(pa.large_string()), feed)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        lists = values.cast(_as_list(kind))
        feed(np.asarray(pc.fill_null(pc.list_value_length(lists), -1), np.int64))
        _feed(pc.list_flatten(lists), feed)
    elif pa.types.is_struct(kind):
        for column in values.flatten():
            _feed(column, feed)
    elif pa.types.is_temporal(kind):
        _feed(values.cast(pa.int64()), feed)
    else:
        feed(pc.is_valid(values).to_numpy(zero_copy_only=False))
        filled = values.fill_null(0).to_numpy(zero_copy_only=False)
        feed(np.ascontiguousarray(filled))


def _as_list(kind: pa.DataType) -> pa.DataType:
    if not pa.types.is_map(kind):
        return kind
    return pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))


def _feed_texts(texts: pa.Array, feed: Feed) -> None:
    if texts.null_count:
        feed(np.asarray(pc.fill_null(pc.binary_length(texts), -1), np.int64))
        texts = texts.fill_null("")
    elif len(texts):
        feed(np.diff(_ends(texts)))
    data = texts.buffers()[2]
    if len(texts) and data is not None:
        ends = _ends(texts)
        feed(memoryview(data)[ends[0] : ends[-1]])


def _ends(texts: pa.Array) -> NDArray[np.int64]:
    """Where the texts end, and before them where the first begins."""
    offsets = np.frombuffer(texts.buffers()[1], np.int64)
    return offsets[texts.offset : texts.offset + len(texts) + 1]
