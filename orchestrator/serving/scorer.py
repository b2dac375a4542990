"""Score requests with the newest champion, and swap to a newer one without dropping a request.

A request reads the current snapshot once and uses only that one. So a swap is a single assignment:
there is no lock, and no request sees parts of two models.
"""

import threading
import time
from array import array
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError, one_line
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import Origin, open_origin
from orchestrator.publish.place import Version
from orchestrator.serving.kernel import Slots
from orchestrator.serving.limits import DEFAULT, Limits
from orchestrator.serving.request import MAX_MISTAKES, RequestDecoder, RequestError, text_of
from orchestrator.serving.snapshot import Fresh, Snapshot, Unseen, snapshot, warm_up
from trainer.vectors import Vectors

Requests = Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]
"""Users, each with their ads."""

SLICE_ADS = 500
"""Ads in a slice of work: 1 ms, or 5 if the model knows none of their values."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The click probability of one user for each ad, and the version that computed it."""

    version: Version
    pctr: NDArray[np.float64]
    unseen: Unseen
    """The (feature, value) that the model does not know, after the mapping, and how often."""


class AdsAt(NamedTuple):
    """Where in a request some ads are."""

    where: str
    """What comes before "ads" in messages."""
    first: int


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """A snapshot and the decoders of its requests."""

    snapshot: Snapshot
    users: RequestDecoder
    ads: RequestDecoder

    def ad_slots(self, ads: Sequence[Any], at: AdsAt, mistakes: list[str], unseen: Unseen) -> Slots:
        """The rows of ads. Appends to `mistakes` what is wrong."""
        try:
            columns = self.ads.columns(ads)
            if columns is not None:
                return self._looked_up(columns, unseen)
        except (InputError, TypeError):  # TypeError: a list or an object as a value
            unseen.clear()
        read = [self.ads.read(ad, f"{at.where}ads[{at.first + i}]", mistakes)
                for i, ad in enumerate(ads)]  # fmt: skip
        current = self.snapshot
        return current.slots(current.ad, [] if mistakes else map(enumerate, read), unseen)

    def _looked_up(self, columns: Sequence[Sequence[Any]], unseen: Unseen) -> Slots:
        """The rows of single values, feature by feature."""
        table, ads = self.snapshot.ad, len(columns[0])
        fresh, rows = Fresh(table, self.snapshot.config, unseen), array("i")
        for number, (known, values) in enumerate(zip(table.rows, columns, strict=True)):
            try:
                rows.extend(map(known.__getitem__, values))
                continue
            except KeyError:
                del rows[number * ads :]
            for value in values:
                row = known.get(value)
                if row is None:
                    text = text_of(value)
                    row = known.get(text)
                rows.append(fresh.row(number, text) if row is None else row)
        flat = np.frombuffer(rows, np.int32).reshape(-1, ads).T.reshape(-1)
        first = np.arange(0, len(flat) + 1, len(columns), dtype=np.int32)
        return Slots(first, flat, np.ones(len(flat), np.float32), fresh.vectors())


@dataclass
class FollowStatus:
    """The result of looking for newer versions so far."""

    swaps: int = 0
    faults: int = 0
    last_fault: str = ""
    checked: float = 0.0
    """When the origin was last checked, by the monotonic clock."""


class Scorer:
    """Thread-safe: any number of threads may score while one refreshes."""

    def __init__(self, origin: Origin, limits: Limits = DEFAULT) -> None:
        """Load the newest valid version; InputError if there is none."""
        self.limits = limits
        self.watch = FollowStatus()
        self._follower = Follower(origin)
        self._refreshing = threading.Lock()
        self._serving: Serving | None = None
        if not self.refresh():
            reason = f": {self.watch.last_fault}" if self.watch.last_fault else ""
            raise InputError(f"{origin.store.uri}: has no model that can be served{reason}")
        warm_up(self.current)

    @property
    def current(self) -> Snapshot:
        """The snapshot that answers requests now."""
        return self.serving.snapshot

    @property
    def serving(self) -> Serving:
        """What answers requests now."""
        assert self._serving is not None
        return self._serving

    @property
    def age_s(self) -> float:
        """Seconds since the current model was first published."""
        published = datetime.fromisoformat(self.current.version.published)
        return (datetime.now(UTC) - published).total_seconds()

    def score(self, user: Mapping[str, Any], ads: Sequence[Mapping[str, Any]]) -> Scored:
        """The click probability of one user for each of these ads."""
        return self.score_batch([(user, ads)])[0]

    def score_batch(self, requests: Requests) -> list[Scored]:
        """Score several users, each with their own ads, all with the same version."""
        work = self.scoring(requests)
        while True:
            try:
                next(work)
            except StopIteration as done:
                found: list[Scored] = done.value
                return found

    def scoring(self, requests: Requests) -> Generator[None, None, list[Scored]]:
        """The same in slices of some milliseconds, for a caller that has other things to do."""
        _check_size(requests, self.limits.max_ads)
        mistakes: list[str] = []
        scored, serving = list[Scored](), self.serving
        current = serving.snapshot
        for number, (user, ads) in enumerate(requests):
            where = "" if len(requests) == 1 else f"requests[{number}]."
            unseen: Unseen = Counter()
            bags = serving.users.read(user, f"{where}user", mistakes)
            vector = None if mistakes else current.user_vector(bags, unseen)
            parts = []
            for first in range(0, len(ads), SLICE_ADS):
                if number or first:
                    yield
                part, at = ads[first : first + SLICE_ADS], AdsAt(where, first)
                of_part: Unseen = Counter()
                slots = serving.ad_slots(part, at, mistakes, of_part)
                if vector is not None and not mistakes:
                    parts.append(current.pctr(vector, slots))
                    unseen.update(of_part)
            if not mistakes:
                pctr = parts[0] if len(parts) == 1 else np.concatenate(parts)
                scored.append(Scored(current.version, pctr, unseen))
            elif len(mistakes) >= MAX_MISTAKES:
                break
        if mistakes:
            raise RequestError(mistakes)
        return scored

    def user_vector(self, user: Mapping[str, Any]) -> tuple[Vectors, float, Version]:
        """A user's vector, the bias and the version, for a search engine that ranks ads itself."""
        mistakes: list[str] = []
        serving = self.serving
        bags = serving.users.read(user, "user", mistakes)
        if mistakes:
            raise RequestError(mistakes)
        current = serving.snapshot
        return current.user_vector(bags, Counter()), current.bias, current.version

    def refresh(self) -> bool:
        """Swap to a newer version; returns whether there was one."""
        with self._refreshing:
            found = self._follower.advance()
            self.watch.checked = time.monotonic()
            for fault in found.faults:
                self.record_fault(fault)
            if found.version is None:
                return False
            before = self._serving
            spec = self._follower.model.config.spec
            if before is not None and spec != before.snapshot.config.spec:
                self.record_fault(
                    f"version {found.version.number}: has other features: restart the service"
                )
                return False
            try:
                fresh = snapshot(
                    self._follower.model, found.version, before.snapshot if before else None
                )
            except InputError as error:
                self.record_fault(str(error))
                return False
            self._serving = self._with_decoders(fresh)
            self.watch.swaps += 1
            return True

    def record_fault(self, text: str) -> None:
        """Remember what went wrong; the current version keeps serving."""
        self.watch.faults += 1
        self.watch.last_fault = text

    def _with_decoders(self, fresh: Snapshot) -> Serving:
        before, mapping = self._serving, fresh.version.mapping
        if before is not None and before.snapshot.version.mapping == mapping:
            return replace(before, snapshot=fresh)  # they remember what they have mapped
        spec = fresh.config.spec
        users = RequestDecoder("user", spec.user, self.limits, mapping)
        return Serving(fresh, users, RequestDecoder("ad", spec.ad, self.limits, mapping))


@contextmanager
def following(
    uri: str, arm: str | None = None, poll_s: float = 2.0, limits: Limits = DEFAULT
) -> Iterator[Scorer]:
    """A scorer for a published place or a run. A thread swaps to newer versions."""
    scorer, stop = Scorer(open_origin(uri, arm), limits), threading.Event()

    def follow() -> None:
        while not stop.wait(poll_s):
            try:
                scorer.refresh()
            except Exception as error:  # the origin cannot be read: keep the current version
                scorer.record_fault(one_line(error))

    thread = threading.Thread(target=follow, name="follow", daemon=True)
    thread.start()
    try:
        yield scorer
    finally:
        stop.set()
        thread.join(timeout=10.0)


def _check_size(requests: Sequence[tuple[Any, Sequence[Any]]], max_ads: int) -> None:
    for i, (_, ads) in enumerate(requests):
        if not ads:
            where = "ads" if len(requests) == 1 else f"requests[{i}].ads"
            raise RequestError([f"{where}: must have at least one ad, but is empty"])
    total = sum(len(ads) for _, ads in requests)
    if total > max_ads:
        raise RequestError(
            [f"ads: must be at most {max_ads} in total, but are {total} (--max-ads)"]
        )
