"""How growth spreads in one instance: which vector grew at which event, beside which others.

The kernel stops after any step that leaves an entry at a level or beyond. So the instance runs at
full speed, and is looked at only after events that update a large vector or, as long as there is
none, leave the largest one so far.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from divergence.detector import LARGE
from divergence.rules import Rule
from trainer.chunk import Chunk
from trainer.instance import Job
from trainer.kernel import Tables
from trainer.setting import Setting
from trainer.steps import Steps, vectors_in

NEARBY = 100
"""Events before a growth that it is compared with."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The first event after which a vector was large; -1: it was so at the start.

    `sources` are the vectors that had grown before, took part in this event, and multiplied this
    vector's gradient there. Vectors are numbered as in `Steps.norms`.
    """

    vector: int
    event: int
    norm: float
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Contagion:
    """The growths in the order of their events, and the largest norm after any event."""

    growths: tuple[Growth, ...]
    largest: float


def contagion(
    job: Job, chunk: Chunk, start: Tables, setting: Setting, rule: Rule, events: int
) -> Contagion:
    """Train on the first `events` events, and note when each vector became large."""
    steps, level = Steps(job, chunk, start, setting, rule), np.float32(LARGE * job.tau)
    norm = steps.norms(np.arange(sum(map(len, steps.vectors))))
    largest = _largest(norm)
    grown = {int(v): Growth(int(v), -1, float(norm[v])) for v in np.flatnonzero(~(norm < level))}
    while (event := steps.until(events, min(level, _above(largest)))) >= 0:
        touched = vectors_in(chunk, event)
        norm = steps.norms(touched)
        largest = max(largest, _largest(norm))
        before = [vector for vector in dict.fromkeys(touched.tolist()) if vector in grown]
        for i in np.flatnonzero(~(norm < level)).tolist():
            vector = int(touched[i])
            if vector not in grown:
                sources = tuple(v for v in before if _multiplies(job, chunk, v, vector))
                grown[vector] = Growth(vector, event, float(norm[i]), sources)
    return Contagion(tuple(grown.values()), float(largest))


def _largest(norm: NDArray[np.float32]) -> np.float32:
    """The largest of these; a norm that is not a number is beyond all."""
    return np.float32(np.where(np.isnan(norm), np.inf, norm).max(initial=0.0))


def _above(norm: np.float32) -> np.float32:
    return np.float32(np.nextafter(norm, np.float32(np.inf)))


def _multiplies(job: Job, chunk: Chunk, source: int, vector: int) -> bool:
    """Whether entries of one vector are factors in the gradient of the other.

    An ad's gradient is the user's vector; a user feature's is the ad's vector times the other user
    features that it overlaps with (the paper, section IV).
    """
    users = len(chunk.user_keys)
    if source < users and vector < users:
        features = chunk.user_keys.feature
        return job.shape.overlap > 0 and bool(features[source] != features[vector])
    return (source < users) != (vector < users)


@dataclass(frozen=True, slots=True)
class Company:
    """An event in which a vector grew: whether one that had grown before took part.

    `nearby` is the share of the events just before it in which one did.
    """

    event: int
    shared: bool
    nearby: float


def company(chunk: Chunk, growths: tuple[Growth, ...], events: int) -> tuple[Company, ...]:
    """The events with a growth, each beside up to `NEARBY` events before it without one.

    Both are after the first growth: nothing was large before it.
    """
    when = np.full(len(chunk.user_keys) + len(chunk.ad_keys), events, np.int64)
    for growth in growths:
        when[growth.vector] = growth.event
    shared = np.zeros(events, bool)
    users = len(chunk.user_keys)
    for slots, since in ((chunk.users, when[:users]), (chunk.ads, when[users:])):
        event = np.repeat(np.arange(events), np.diff(slots.start[: events + 1]))
        shared[event[since[slots.row[: len(event)]] < event]] = True
    at = np.unique([growth.event for growth in growths if growth.event >= 0])
    others = np.setdiff1d(np.arange(growths[0].event + 1 if growths else 0, events), at)
    found = []
    for event in at.tolist():
        before = others[: np.searchsorted(others, event)][-NEARBY:]
        if len(before):
            found.append(Company(event, bool(shared[event]), float(shared[before].mean())))
    return tuple(found)


def norms_after(
    steps: Steps, vectors: NDArray[np.int64], events: NDArray[np.int64]
) -> NDArray[np.float32]:
    """float32 [events, vectors]: norms after these ascending events.

    An instance that diverges stays as it was then.
    """
    found = np.empty((len(events), len(vectors)), np.float32)
    for i, event in enumerate(events.tolist()):
        stopped = steps.until(event + 1)
        found[i:] = steps.norms(vectors)
        if stopped >= 0:
            break
    return found
