"""The events that every learner of the field gets: the same values in the same order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.chunk import Chunk, Keys
from trainer.features import FeatureSpec
from trainer.kernel import EventRows

SMALLEST = 1e-7
"""Chances are cut to this far from 0 and 1, for every learner: some of them print six digits."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldEvents:
    """Events in order. Event i has the slots start[i] to start[i + 1], users' fields first.

    A slot is a value of a field (a feature of ours) with its weight: 1, or its share where the
    field has several values. Values of all fields have numbers of their own, by first appearance.
    """

    click: NDArray[np.uint8]
    start: NDArray[np.int64]
    field: NDArray[np.int32]
    value: NDArray[np.int32]
    weight: NDArray[np.float32]

    def __len__(self) -> int:
        """How many events there are."""
        return len(self.click)

    @property
    def event(self) -> NDArray[np.int64]:
        """The event of each slot."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    def slots(self) -> Iterator[tuple[int, list[tuple[int, int, float]]]]:
        """For each event its click, and (field, value, weight) of its slots."""
        field, value, weight = self.field.tolist(), self.value.tolist(), self.weight.tolist()
        all_slots = list(zip(field, value, weight, strict=True))
        start = self.start.tolist()
        for i, click in enumerate(self.click.tolist()):
            yield click, all_slots[start[i] : start[i + 1]]


@dataclass(frozen=True, slots=True)
class Fields:
    """What is known of a stream before it begins: its fields, and how many values it will have.

    Learners with tables of a fixed size need the latter; it says nothing about clicks.
    """

    users: int
    ads: int
    values: int

    @property
    def count(self) -> int:
        """All fields."""
        return self.users + self.ads


def numbered(chunks: Sequence[Chunk], spec: FeatureSpec) -> tuple[Fields, list[FieldEvents]]:
    """All chunks of a stream, their values numbered by first appearance."""
    numbers: dict[tuple[int, str], int] = {}
    events = [_numbered(chunk, numbers) for chunk in chunks]
    return Fields(len(spec.user), len(spec.ad), len(numbers)), events


def _numbered(chunk: Chunk, numbers: dict[tuple[int, str], int]) -> FieldEvents:
    users = _side(chunk.users, chunk.user_keys, numbers)
    ads = _side(chunk.ads, chunk.ad_keys, numbers)
    lengths = [np.diff(chunk.users.start), np.diff(chunk.ads.start)]
    start = np.concatenate([[0], np.cumsum(lengths[0] + lengths[1])])
    event = [np.repeat(np.arange(len(chunk)), each) for each in lengths]
    order = np.argsort(np.concatenate(event), kind="stable")
    parts = (np.concatenate(both)[order] for both in zip(users, ads, strict=True))
    return FieldEvents(chunk.click, start, *parts)


def _side(
    slots: EventRows, keys: Keys, numbers: dict[tuple[int, str], int]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    number = np.array([numbers.setdefault(p, len(numbers)) for p in keys.pairs], np.int32)
    weight = slots.weight if len(slots.weight) else np.ones(len(slots.row), np.float32)
    return keys.feature[slots.row].astype(np.int32), number[slots.row], weight


def log_loss_of(chance: NDArray[np.float64], click: NDArray[np.uint8]) -> float:
    """The mean log-loss of predicted chances; infinite if one of them is not a number."""
    if not np.isfinite(chance).all():
        return float("inf")
    cut = np.clip(chance, SMALLEST, 1.0 - SMALLEST)
    return float(-np.log(np.where(click != 0, cut, 1.0 - cut)).mean())


def ffm_lines(events: FieldEvents) -> list[str]:
    """The events in libFFM's format: `label field:value:weight ...`.

    Field 0 has one value that every event has: libFFM has no bias and no weights of single values,
    and is much worse without.
    """
    return [
        f"{click} 0:0:1 {' '.join(f'{f + 1}:{v + 1}:{w:.6g}' for f, v, w in slots)}"
        for click, slots in events.slots()
    ]


def vw_lines(events: FieldEvents, letters: str) -> list[str]:
    """The events in Vowpal Wabbit's format; `letters` has the namespace of each field."""
    return [f"{1 if click else -1}{_namespaces(slots, letters)}" for click, slots in events.slots()]


def _namespaces(slots: list[tuple[int, int, float]], letters: str) -> str:
    text, before = [], ""
    for field, value, weight in slots:
        if letters[field] != before:
            before = letters[field]
            text.append(f" |{before}")
        text.append(f" {value}" if weight == 1.0 else f" {value}:{weight:.6g}")
    return "".join(text)
