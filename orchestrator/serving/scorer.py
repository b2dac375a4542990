"""Score requests with the newest champion, and swap to a newer one without dropping a request.

A request reads the current snapshot once and uses only that one. So a swap is a single assignment:
there is no lock, and no request sees parts of two models.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from divergence.errors import InputError, one_line
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import Origin, open_origin
from orchestrator.publish.place import Version
from orchestrator.serving.limits import DEFAULT, Limits
from orchestrator.serving.request import Bag, RequestDecoder, RequestError
from orchestrator.serving.snapshot import Snapshot, snapshot
from trainer.initial_vectors import initial_vectors
from trainer.scoring import sigmoid
from trainer.vectors import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The click probability of one user for each ad, and the version that computed it."""

    version: Version
    pctr: NDArray[np.float64]


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
        self._current: Snapshot | None = None
        if not self.refresh():
            reason = f": {self.watch.last_fault}" if self.watch.last_fault else ""
            raise InputError(f"{origin.store.uri}: has no model that can be served{reason}")
        spec = self.current.config.spec
        self._users = RequestDecoder("user", spec.user, self.limits)
        self._ads = RequestDecoder("ad", spec.ad, self.limits)
        initial_vectors(0, "", [""], 1, 1.0)  # compile it before the first request needs it

    @property
    def current(self) -> Snapshot:
        """The snapshot that answers requests now."""
        assert self._current is not None
        return self._current

    @property
    def age_s(self) -> float:
        """Seconds since the current version was published."""
        published = datetime.fromisoformat(self.current.version.published)
        return (datetime.now(UTC) - published).total_seconds()

    def score(self, user: Mapping[str, Any], ads: Sequence[Mapping[str, Any]]) -> Scored:
        """The click probability of one user for each of these ads."""
        return self.score_batch([(user, ads)])[0]

    def score_batch(
        self, requests: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]
    ) -> list[Scored]:
        """Score several users, each with their own ads, all with the same version."""
        _check_size(requests, self.limits.max_ads)
        mistakes: list[str] = []
        single = len(requests) == 1
        read = [
            self._read(user, ads, "" if single else f"requests[{i}].", mistakes)
            for i, (user, ads) in enumerate(requests)
        ]
        if mistakes:
            raise RequestError(mistakes)
        current = self.current
        return [Scored(current.version, sigmoid(current.logits(*each))) for each in read]

    def user_vector(self, user: Mapping[str, Any]) -> tuple[Vectors, float, Version]:
        """A user's vector, the bias and the version, for a search engine that ranks ads itself."""
        mistakes: list[str] = []
        bags = self._users.read(user, "user", mistakes)
        if mistakes:
            raise RequestError(mistakes)
        current = self.current
        return current.user_vector(bags), current.bias, current.version

    def refresh(self) -> bool:
        """Swap to a newer version; returns whether there was one."""
        with self._refreshing:
            found = self._follower.advance()
            self.watch.checked = time.monotonic()
            for fault in found.faults:
                self.record_fault(fault)
            if found.version is None:
                return False
            try:
                fresh = snapshot(self._follower.model, found.version)
            except InputError as error:
                self.record_fault(str(error))
                return False
            if self._current is not None and fresh.config.spec != self._current.config.spec:
                self.record_fault(
                    f"version {found.version.number}: has other features: restart the service"
                )
                return False
            self._current = fresh
            self.watch.swaps += 1
            return True

    def record_fault(self, text: str) -> None:
        """Remember what went wrong; the current version keeps serving."""
        self.watch.faults += 1
        self.watch.last_fault = text

    def _read(
        self, user: Any, ads: Sequence[Any], where: str, mistakes: list[str]
    ) -> tuple[list[Bag], list[list[Bag]]]:
        bags = self._users.read(user, f"{where}user", mistakes)
        return bags, [self._ads.read(ad, f"{where}ads[{i}]", mistakes) for i, ad in enumerate(ads)]


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
