"""Events as rows of a table of fixed size: a value's row is a hash of (feature, value)."""

import zlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainer.chunk import Chunk, Keys, compile_chunk
from trainer.features import FeatureSpec
from trainer.kernel import EventRows


class HashedRows(NamedTuple):
    """The values of one side of all events: those of event i are at start[i] to start[i + 1]."""

    start: NDArray[np.int64]
    row: NDArray[np.int64]
    weight: NDArray[np.float32]


class HashedEvents(NamedTuple):
    """Events for a trainer that has a row for each hash."""

    click: NDArray[np.uint8]
    users: HashedRows
    ads: HashedRows


def hashed_events(table: pa.Table, spec: FeatureSpec, rows: int) -> HashedEvents:
    """The events, with values hashed to `rows` rows. Rare values share theirs with others."""
    chunk: Chunk = compile_chunk(table, spec)
    names = [feature.name for feature in spec.features]
    return HashedEvents(
        chunk.click,
        _hashed(chunk.users, chunk.user_keys, names, rows),
        _hashed(chunk.ads, chunk.ad_keys, names, rows),
    )


def _hashed(slots: EventRows, keys: Keys, names: list[str], rows: int) -> HashedRows:
    texts = (f"{names[feature]}\0{value}" for feature, value in keys.pairs)
    row_of = np.fromiter((zlib.crc32(text.encode()) % rows for text in texts), np.int64, len(keys))
    weight = slots.weight if len(slots.weight) else np.ones(len(slots.row), np.float32)
    return HashedRows(slots.start, row_of[slots.row], weight)
