"""The lease on a run folder: one driver at a time writes to it.

A driver takes the lease by creating `claims/<epoch>.json`, which only one driver can do. It then
renews the lease every few seconds with a new heartbeat file, `claims/<epoch>.<token>.<n>`; the last
two are kept. The highest epoch holds the lease. A second driver

- is refused while the holder is alive: its process exists, or new heartbeats appear;
- takes the next epoch once the holder is dead: its process no longer exists on this host, or no
  heartbeat has appeared until the lease expired. Clocks of different hosts are never compared.

The holder checks its lease before each write. A driver that was only paused finds a higher epoch
and stops. One gap remains, between that check and the write. A driver can write at most one cycle's
records in it. Records name their driver and never replace another's, so a resume uses all records
of such a cycle or none.
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
from orchestrator.storage.store import ConflictError, CorruptError, Store, read

FOLDER = "claims"
"""The name is part of the run folder's format."""
MAX_BYTES = 1 << 16
"""The most that is read of a lease."""
POLL_S = 1.0
RELEASE_TIMEOUT_S = 5.0
"""How long `release` waits for a heartbeat that is being written."""
LEASE_FILE = re.compile(r"\d{6}(\.json|\.[0-9a-f]{16}\.\d+)")
"""The names of leases and heartbeats."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """How often the holder renews its lease, and when a lease without heartbeats expires."""

    heartbeat_s: float = 5.0
    expires_after_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease found in a folder, and the names of its heartbeats."""

    epoch: int
    process: Process | None
    """The holder; None if the lease file cannot be read."""
    since: str
    heartbeats: tuple[str, ...]

    def __str__(self) -> str:
        """The holder, for a message."""
        if self.process is None:
            return f"an unknown process (lease {self.epoch} cannot be read)"
        return f"process {self.process.pid} on {self.process.host} since {self.since}"


@contextmanager
def hold_lease(
    store: Store, say: Callable[[str], None] = log.info, timing: LeaseTiming | None = None
) -> Iterator[Store]:
    """Hold the lease on a folder and yield the store to write through.

    InputError if another driver holds the lease.
    """
    timing = timing or LeaseTiming()
    leased = _LeasedStore(store, _acquire(store, say, timing), secrets.token_hex(8), timing)
    try:
        yield leased
    finally:
        leased.release()


def current_lease(store: Store) -> Lease | None:
    """The lease with the highest epoch; None if nobody holds one."""
    names = store.names(FOLDER)
    epoch = _highest_epoch(names)
    if not epoch:
        return None
    heartbeats = tuple(n for n in names if _epoch(n) == epoch and not n.endswith(".json"))
    try:
        process, since = _holder(read(store, _lease_path(epoch), MAX_BYTES))
        return Lease(epoch, process, since, heartbeats)
    except FileNotFoundError:
        return None  # released since the names were listed
    except (CorruptError, ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return Lease(epoch, None, "", heartbeats)


def _holder(data: bytes) -> tuple[Process, str]:
    """The process that wrote a lease, and when."""
    body = json.loads(data)
    host, place, begun, since = (str(body[name]) for name in ("host", "place", "begun", "since"))
    pid = int(body["pid"])
    if not (host + since).isprintable() or not 0 < pid < 1 << 32:
        raise ValueError
    return Process(host, place, pid, begun), since


class _LeasedStore:
    """A store that checks before every write that this driver still holds the lease."""

    def __init__(self, store: Store, epoch: int, token: str, timing: LeaseTiming) -> None:
        self.uri, self._store, self._epoch = store.uri, store, epoch
        self._prefix = f"{epoch:06d}.{token}."
        self._heartbeats = 0
        self._released = threading.Event()
        self._write_heartbeat()
        for name in store.names(FOLDER):
            if LEASE_FILE.fullmatch(name) and _epoch(name) < epoch:
                store.delete(f"{FOLDER}/{name}")
                store.delete_temporary(FOLDER, f"{_epoch(name):06d}.")
        self._renewal = threading.Thread(
            target=self._renew, args=(timing,), daemon=True, name="lease"
        )
        self._renewal.start()

    def create(self, path: str, data: bytes) -> None:
        """Write a new file."""
        self._check()
        self._store.create(path, data)

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        return self._store.open(path)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder."""
        return self._store.names(folder)

    def delete(self, path: str) -> None:
        """Delete a file."""
        self._check()
        self._store.delete(path)

    def delete_temporary(self, folder: str, prefix: str = "") -> None:
        """Delete what a killed driver left in a folder."""
        self._check()
        self._store.delete_temporary(folder, prefix)

    def release(self) -> None:
        """Release the lease. Where its files cannot be deleted, it expires."""
        self._released.set()
        self._renewal.join(RELEASE_TIMEOUT_S)
        if self._renewal.is_alive():
            log.warning("%s: does not answer: the lease will expire", self.uri)
            return
        try:
            if self._is_held():
                for name in self._store.names(FOLDER):
                    if name.startswith(self._prefix):
                        self._store.delete(f"{FOLDER}/{name}")
                self._store.delete(_lease_path(self._epoch))
        except (InputError, OSError) as error:
            log.warning("%s: cannot release the lease, which will expire: %s", self.uri, error)

    def _check(self) -> None:
        if not self._is_held():
            holder = current_lease(self._store) or "it has finished"
            raise InputError(
                f"{self.uri}: another driver has taken over this run ({holder}): this one stops"
            )

    def _is_held(self) -> bool:
        names = self._store.names(FOLDER)
        own_heartbeat = any(name.startswith(self._prefix) for name in names)
        return _highest_epoch(names) == self._epoch and own_heartbeat

    def _renew(self, timing: LeaseTiming) -> None:
        while not self._released.wait(timing.heartbeat_s):
            try:
                if not self._is_held():
                    return
                self._write_heartbeat()
            except (InputError, OSError) as error:
                log.warning("%s: cannot renew the lease: %s", self.uri, error)

    def _write_heartbeat(self) -> None:
        """Write the next heartbeat and keep the one before it.

        A driver that lists the names at this moment may miss the new heartbeat but finds the old.
        """
        self._store.create(self._heartbeat_path(self._heartbeats + 1), b"")
        self._heartbeats += 1
        if self._heartbeats > 2:
            self._store.delete(self._heartbeat_path(self._heartbeats - 2))

    def _heartbeat_path(self, number: int) -> str:
        return f"{FOLDER}/{self._prefix}{number}"


def _acquire(store: Store, say: Callable[[str], None], timing: LeaseTiming) -> int:
    """Take the lease and return its epoch; InputError if its holder is alive."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    body = asdict(this_process()) | {"since": since, "nonce": secrets.token_hex(8)}
    while True:
        current = current_lease(store)
        if current is not None and holder_is_alive(store, current, say, timing):
            raise InputError(
                f"{store.uri}: another driver holds the lease on this run ({current}): stop it "
                "first, or use another --out"
            )
        epoch = current.epoch + 1 if current else 1
        try:
            store.create(_lease_path(epoch), json.dumps(body).encode())
        except ConflictError:
            continue  # another driver took this epoch first
        return epoch


def holder_is_alive(
    store: Store, lease: Lease, say: Callable[[str], None], timing: LeaseTiming
) -> bool:
    """Whether the holder of a lease is alive.

    A process on another host cannot be seen: the lease is watched until it is renewed or expires.
    """
    alive = None if lease.process is None else is_alive(lease.process)
    if alive is not None:
        return alive
    say(
        f"{store.uri}: {lease} holds the lease and cannot be seen from here: "
        f"waiting {timing.expires_after_s:.0f} s for a heartbeat"
    )
    expires = time.monotonic() + timing.expires_after_s
    while time.monotonic() < expires:
        now = current_lease(store)
        if now is None:
            return False
        if (now.epoch, now.heartbeats) != (lease.epoch, lease.heartbeats):
            return True
        time.sleep(min(POLL_S, timing.expires_after_s / 10))
    return False


def _lease_path(epoch: int) -> str:
    return f"{FOLDER}/{epoch:06d}.json"


def _highest_epoch(names: Sequence[str]) -> int:
    """The highest epoch among lease files; 0 if there are none."""
    return max((_epoch(name) for name in names if name.endswith(".json")), default=0)


def _epoch(name: str) -> int:
    digits = name.split(".")[0]
    return int(digits) if digits.isdecimal() else 0
