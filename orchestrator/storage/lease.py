"""One driver at a time on a run folder.

A driver that means to write creates `claims/<epoch>.json`, which only one can, and then a heartbeat
beside it every few seconds, `claims/<epoch>.<token>.<n>`, of which the last two stay. The highest
epoch has the run. Whoever comes later

- is refused where the holder lives: its process does, or its heartbeat moves;
- takes the next epoch where it is dead: its process is gone from this very host, or its heartbeat
  has not moved for a whole lease. No clocks are compared.

Before each write the holder looks whether it still is that. One that was only paused, and finds a
higher epoch, stops there. Between that look and its write lies the one gap left; what is written
in it is at most one cycle's records, which name their driver and never replace another's, so that
they are taken as a whole or passed over as a whole.
"""

import json
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import BinaryIO

from divergence.errors import InputError
from orchestrator.storage.process import Process, is_alive, this_process
from orchestrator.storage.store import ConflictError, Store, read

FOLDER = "claims"
LOOK_S = 1.0
RELEASE_S = 5.0
"""How long the end of a run waits for a heartbeat that is under way."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """How often a driver shows that is alive, and after how long without a heartbeat it counts
    as dead."""

    beat_s: float = 5.0
    silence_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim that stands in a folder, and its newest heartbeat."""

    epoch: int
    process: Process | None
    """None where the claim cannot be read."""
    since: str
    beats: tuple[str, ...]

    def __str__(self) -> str:
        """The holder, for a message."""
        if self.process is None:
            return f"claim {self.epoch}"
        return f"process {self.process.pid} on {self.process.host} since {self.since}"


@contextmanager
def hold_lease(
    store: Store, say: Callable[[str], None] = log.info, lease: LeaseTiming | None = None
) -> Iterator[Store]:
    """The folder, to be written to by this driver alone; InputError where another has it."""
    lease = lease or LeaseTiming()
    held = _LeasedStore(store, _take(store, say, lease), secrets.token_hex(8), lease)
    try:
        yield held
    finally:
        held.release()


def current_lease(store: Store) -> Lease | None:
    """The claim with the highest epoch."""
    names = store.names(FOLDER)
    epoch = _highest(names)
    if not epoch:
        return None
    beats = tuple(n for n in names if _epoch(n) == epoch and not n.endswith(".json"))
    try:
        told = json.loads(read(store, _path(epoch)))
        host, place, pid, begun = (told[name] for name in ("host", "place", "pid", "begun"))
        process = Process(str(host), str(place), int(pid), str(begun))
        return Lease(epoch, process, str(told["since"]), beats)
    except FileNotFoundError:
        return None  # released this moment
    except (ValueError, KeyError, TypeError):
        return Lease(epoch, None, "", beats)


OURS = re.compile(r"\d{6}(\.json|\.[0-9a-f]{16}\.\d+)")
"""The names of claims and heartbeats."""


class _LeasedStore:
    """The store, as long as the claim on it stands."""

    def __init__(self, store: Store, epoch: int, token: str, lease: LeaseTiming) -> None:
        self.uri, self._store, self._epoch = store.uri, store, epoch
        self._mine = f"{epoch:06d}.{token}."
        self._beats = 0
        self._ended = threading.Event()
        self._beat()
        for name in store.names(FOLDER):
            if OURS.fullmatch(name) and _epoch(name) < epoch:
                store.delete(f"{FOLDER}/{name}")
        self._heart = threading.Thread(target=self._keep, args=(lease,), daemon=True, name="claim")
        self._heart.start()

    def create(self, path: str, data: bytes) -> None:
        """Write a new file."""
        self._check()
        self._store.create(path, data)

    def open(self, path: str) -> BinaryIO:
        """The file, to be read."""
        return self._store.open(path)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder."""
        return self._store.names(folder)

    def delete(self, path: str) -> None:
        """Remove a file."""
        self._check()
        self._store.delete(path)

    def release(self) -> None:
        """Let go. What cannot be deleted is left to the next driver, which finds nobody alive."""
        self._ended.set()
        self._heart.join(RELEASE_S)
        try:
            if self._stands():
                for name in self._store.names(FOLDER):
                    if name.startswith(self._mine):
                        self._store.delete(f"{FOLDER}/{name}")
                self._store.delete(_path(self._epoch))
        except (InputError, OSError) as error:
            log.warning("%s: the claim on it stays: %s", self.uri, error)

    def _check(self) -> None:
        if not self._stands():
            raise InputError(
                f"{self.uri}: another driver has taken this run over "
                f"({current_lease(self._store) or 'and is done'}): this one stops"
            )

    def _stands(self) -> bool:
        names = self._store.names(FOLDER)
        return _highest(names) == self._epoch and any(n.startswith(self._mine) for n in names)

    def _keep(self, lease: LeaseTiming) -> None:
        while not self._ended.wait(lease.beat_s):
            try:
                if not self._stands():
                    return
                self._beat()
            except (InputError, OSError) as error:
                log.warning("%s: no heartbeat: %s", self.uri, error)

    def _beat(self) -> None:
        """The next heartbeat. The one before the last goes: whoever reads the names meanwhile,
        and so may miss the next, finds the last.
        """
        self._store.create(self._beat_path(self._beats + 1), b"")
        self._beats += 1
        if self._beats > 2:
            self._store.delete(self._beat_path(self._beats - 2))

    def _beat_path(self, number: int) -> str:
        return f"{FOLDER}/{self._mine}{number}"


def _take(store: Store, say: Callable[[str], None], lease: LeaseTiming) -> int:
    """The epoch that is ours now."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    about = asdict(this_process()) | {"since": since, "nonce": secrets.token_hex(8)}
    while True:
        standing = current_lease(store)
        if standing is not None and holder_is_alive(store, standing, say, lease):
            raise InputError(
                f"{store.uri}: another driver is at work here ({standing}): stop it first, or use "
                "another --out"
            )
        epoch = standing.epoch + 1 if standing else 1
        try:
            store.create(_path(epoch), json.dumps(about).encode())
        except ConflictError:
            continue  # somebody was faster: look at that one
        return epoch


def holder_is_alive(
    store: Store, claim: Lease, say: Callable[[str], None], lease: LeaseTiming
) -> bool:
    """Whether the holder of a claim lives; where it cannot be seen, it is watched for a while."""
    alive = None if claim.process is None else is_alive(claim.process)
    if alive is not None:
        return alive
    say(
        f"{store.uri}: claimed by {claim}, which cannot be seen from here: "
        f"waiting {lease.silence_s:.0f} s for a sign of life"
    )
    last = time.monotonic() + lease.silence_s
    while time.monotonic() < last:
        now = current_lease(store)
        if now is None:
            return False
        if (now.epoch, now.beats) != (claim.epoch, claim.beats):
            return True
        time.sleep(min(LOOK_S, lease.silence_s / 10))
    return False


def _path(epoch: int) -> str:
    return f"{FOLDER}/{epoch:06d}.json"


def _highest(names: Sequence[str]) -> int:
    """The highest epoch that is claimed; 0 where none is."""
    return max((_epoch(name) for name in names if name.endswith(".json")), default=0)


def _epoch(name: str) -> int:
    digits = name.split(".")[0]
    return int(digits) if digits.isdecimal() else 0
