"""Our chunks in Vowpal Wabbit's text format, and its predictions as log-loss. Needs no package."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.loop.prefetch import PreparedChunk
from scripts.bench.regrets.peer_setup import chunk_of
from trainer.chunk import Chunk, Keys
from trainer.features import FeatureSpec
from trainer.kernel import EventRows

EVENTS = 100_000
"""ChaCha reads so many events of a stream: a live model takes it some 100 microseconds for each."""
RATES = (0.03, 0.1, 0.3, 0.5, 1.0)
SMALLEST = 1e-7
"""Predictions are single precision: 0 and 1 stand for less than this."""
Ids = dict[tuple[int, str], int]


def first_chunks(prepared: Sequence[PreparedChunk], events: int = EVENTS) -> list[Chunk]:
    """The first chunks, until they have so many events; at least one."""
    chunks = [chunk_of(one) for one in prepared]
    before = np.cumsum([0, *map(len, chunks[:-1])])
    return [chunk for chunk, seen in zip(chunks, before, strict=True) if seen < events]


def fixed_settings(spec: FeatureSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings that ChaCha can reach: no interactions, those of users with ads, or all pairs."""
    users = [_letter(i) for i in range(len(spec.user))]
    ads = [_letter(len(users) + i) for i in range(len(spec.ad))]
    kinds = {
        "no interactions": [],
        "user with ad features": ["".join(pair) for pair in product(users, ads)],
        "all pairs": ["".join(pair) for pair in combinations(users + ads, 2)],
    }
    for (name, pairs), rate in product(kinds.items(), RATES):
        yield f"{name}, learning rate {rate:g}", {"interactions": pairs, "learning_rate": rate}


def progressive(predictions: NDArray[np.float64], click: NDArray[np.uint8]) -> float:
    """The log-loss of predictions in [-1, 1]."""
    chance = np.clip((predictions + 1.0) / 2.0, SMALLEST, 1.0 - SMALLEST)
    return float(-np.log(np.where(click != 0, chance, 1.0 - chance)).mean())


def vw_lines(chunk: Chunk, ids: Ids) -> Iterator[str]:
    """The events in Vowpal Wabbit's format; `ids` numbers the values and grows."""
    users = _tokens(chunk.users, chunk.user_keys, ids, len(chunk))
    ads = _tokens(chunk.ads, chunk.ad_keys, ids, len(chunk))
    for click, user, ad in zip(chunk.click, users, ads, strict=True):
        yield f"{1 if click else -1} {user} {ad}"


def _tokens(slots: EventRows, keys: Keys, ids: Ids, events: int) -> Iterator[str]:
    """For each event `|a 17 |b 4:0.5 8:0.5`: a namespace for each feature, with its values."""
    number = [ids.setdefault(pair, len(ids)) for pair in keys.pairs]
    letter = [_letter(feature) for feature in keys.feature.tolist()]
    start, row, weight = slots.start.tolist(), slots.row.tolist(), slots.weight.tolist()
    for event in range(events):
        text, before = [], ""
        for slot in range(start[event], start[event + 1]):
            at = row[slot]
            if letter[at] != before:
                before = letter[at]
                text.append(f"|{before}")
            single = not weight or weight[slot] == 1.0
            text.append(f"{number[at]}" if single else f"{number[at]}:{weight[slot]:.6g}")
        yield " ".join(text)


def _letter(feature: int) -> str:
    """The namespace of a feature: interactions are written in letters."""
    return chr(ord("a") + feature)
