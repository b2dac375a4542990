"""Scores from the newest champion, which is swapped under way without a request being dropped.

A request looks once at which snapshot is current and is answered by it alone, so that swapping is
the assignment of one attribute: no lock, and no request that sees half of two models.
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

from divergence.errors import InputError
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import Origin, open_origin
from orchestrator.publish.place import Version
from orchestrator.serving.request import Bag, RequestDecoder, RequestError
from orchestrator.serving.snapshot import Snapshot, snapshot
from trainer.initial_vectors import initial_vectors
from trainer.scoring import sigmoid
from trainer.vectors import Vectors

MOST_ADS = 10_000
"""Of one request, all its users taken together."""


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """Click probabilities of one user with each ad, and by which version."""

    version: Version
    pctr: NDArray[np.float64]


@dataclass
class Watch:
    """How following goes."""

    swaps: int = 0
    faults: int = 0
    last_fault: str = ""
    checked: float = 0.0
    """When the origin was last looked at, by the monotonic clock."""


class Scorer:
    """Thread-safe: any number of threads may score while one refreshes."""

    def __init__(self, origin: Origin) -> None:
        """Load the newest sound version; InputError where there is none."""
        self.watch = Watch()
        self._follower = Follower(origin)
        self._refreshing = threading.Lock()
        self._current: Snapshot | None = None
        if not self.refresh():
            told = f": {self.watch.last_fault}" if self.watch.last_fault else ""
            raise InputError(f"{origin.store.uri}: has no model that can be served{told}")
        spec = self.current.config.spec
        self._users, self._ads = RequestDecoder("user", spec.user), RequestDecoder("ad", spec.ad)
        initial_vectors(0, "", [""], 1, 1.0)  # compile it before the first unseen value comes

    @property
    def current(self) -> Snapshot:
        """What requests are answered with now."""
        assert self._current is not None
        return self._current

    @property
    def age_s(self) -> float:
        """Seconds since the current version was published."""
        published = datetime.fromisoformat(self.current.version.published)
        return (datetime.now(UTC) - published).total_seconds()

    def score(self, user: Mapping[str, Any], ads: Sequence[Mapping[str, Any]]) -> Scored:
        """The click probability of one user with each of these ads."""
        return self.score_batch([(user, ads)])[0]

    def score_batch(
        self, requests: Sequence[tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]]
    ) -> list[Scored]:
        """Several users, each with ads of their own, all by the same version."""
        _check_size(requests)
        mistakes: list[str] = []
        lone = len(requests) == 1
        read = [
            self._read(user, ads, "" if lone else f"requests[{i}].", mistakes)
            for i, (user, ads) in enumerate(requests)
        ]
        if mistakes:
            raise RequestError(mistakes)
        current = self.current
        return [Scored(current.version, sigmoid(current.logits(*each))) for each in read]

    def user_vector(self, user: Mapping[str, Any]) -> tuple[Vectors, float, Version]:
        """A user's vector, the bias, and their version: what a search engine ranks with."""
        mistakes: list[str] = []
        bags = self._users.read(user, "user", mistakes)
        if mistakes:
            raise RequestError(mistakes)
        current = self.current
        return current.user_vector(bags), current.bias, current.version

    def refresh(self) -> bool:
        """Swap to a newer version if there is one; whether there was."""
        with self._refreshing:
            found = self._follower.advance()
            self.watch.checked = time.monotonic()
            for fault in found.faults:
                self.fault(fault)
            if found.version is None:
                return False
            try:
                fresh = snapshot(self._follower.model, found.version)
            except InputError as error:
                self.fault(str(error))
                return False
            if self._current is not None and fresh.config.spec != self._current.config.spec:
                self.fault(f"version {found.version.number}: has other features: start anew")
                return False
            self._current = fresh
            self.watch.swaps += 1
            return True

    def fault(self, text: str) -> None:
        """Take down what went wrong; the version that is held goes on serving."""
        self.watch.faults += 1
        self.watch.last_fault = text

    def _read(
        self, user: Any, ads: Sequence[Any], where: str, mistakes: list[str]
    ) -> tuple[list[Bag], list[list[Bag]]]:
        bags = self._users.read(user, f"{where}user", mistakes)
        return bags, [self._ads.read(ad, f"{where}ads[{i}]", mistakes) for i, ad in enumerate(ads)]


@contextmanager
def following(uri: str, arm: str | None = None, poll_s: float = 2.0) -> Iterator[Scorer]:
    """A scorer of what is at a path or URI, which looks for newer versions in a thread."""
    scorer, stop = Scorer(open_origin(uri, arm)), threading.Event()

    def follow() -> None:
        while not stop.wait(poll_s):
            try:
                scorer.refresh()
            except Exception as error:  # the place cannot be reached: go on with what is there
                scorer.fault(" ".join(str(error).split()) or type(error).__name__)

    thread = threading.Thread(target=follow, name="follow", daemon=True)
    thread.start()
    try:
        yield scorer
    finally:
        stop.set()
        thread.join(timeout=10.0)


def _check_size(requests: Sequence[tuple[Any, Sequence[Any]]]) -> None:
    for i, (_, ads) in enumerate(requests):
        if not ads:
            where = "ads" if len(requests) == 1 else f"requests[{i}].ads"
            raise RequestError([f"{where}: must have at least one ad, but is empty"])
    total = sum(len(ads) for _, ads in requests)
    if total > MOST_ADS:
        raise RequestError([f"ads: must be at most {MOST_ADS} in all, but are {total}"])
