"""Commits cycles one after the other in a thread of its own: models first, then records.

A commit reads the models while the next cycle trains from copies of their rows. Whoever changes a
model calls `wait` first. The loop decides when a commit starts: not while actors wait for it.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any

from divergence.errors import InputError
from orchestrator.config.schema import Retention
from orchestrator.journal.journal import commit, model_path, unneeded_models
from orchestrator.journal.norms import champion_norms
from orchestrator.journal.record import CycleRecord, FileRef, files_of
from orchestrator.loop.arm_state import ArmState
from orchestrator.storage.background import BackgroundThread
from orchestrator.storage.store import Store
from trainer.protocol import AnyChanges

MAX_DELTAS = 96
"""A full model is written at least this often: once a day with 15-minute cycles."""
COMMIT_S = 600.0
log = logging.getLogger(__name__)
Listener = Callable[[Sequence[CycleRecord]], None]
"""Called with the records of each committed cycle, in the driver's own thread."""


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """An arm's trained cycle: its record except the model files and norms, and the changed rows."""

    arm: ArmState
    record: CycleRecord
    changes: AnyChanges | None
    snapshots: Mapping[str, Any] = field(default_factory=dict)
    """Models of lines, by path, as bytes or arrays of bytes."""
    freed: object = field(default=None, repr=False, compare=False)
    """What the cycle no longer needs. It is freed with the commit: that takes a while, too."""


class Committer:
    """Writes cycles to a run folder and tells listeners about them.

    Used as a context manager: what was handed over is committed at the end of the block, whatever
    ended it, unless that is a KeyboardInterrupt.
    """

    def __init__(
        self, store: Store, retention: Retention, listeners: Sequence[Listener] = ()
    ) -> None:
        self._store, self._retention, self._listeners = store, retention, listeners
        self._thread = BackgroundThread("commit")
        self._pending: Sequence[PendingCommit] = ()
        self._running: Future[list[CycleRecord]] | None = None
        self._committed: list[CycleRecord] = []
        """The records that the listeners have not seen yet."""
        self._line_files: dict[str, int] = {}
        """The cycle in which a snapshot of a line was last needed, by path."""
        self.seconds = 0.0
        """How long the last commit took."""

    def __enter__(self) -> "Committer":
        """Commits can be handed over."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit what is pending, and stop. The error that ended the block goes first."""
        try:
            if not isinstance(error, KeyboardInterrupt):
                self.finish()
        except (InputError, OSError) as second:
            if error is None:
                raise
            log.warning("%s: the last cycle was not committed: %s", self._store.uri, second)
        finally:
            self._thread.stop()

    def hand_over(self, cycle: Sequence[PendingCommit]) -> None:
        """The next cycle to commit: one entry for each arm, in the order of the arms."""
        self.wait()
        self._pending = cycle
        self._call_listeners()

    def start(self) -> None:
        """Start to commit what was handed over."""
        if self._pending:
            call = partial(self._write, self._pending)
            self._running, self._pending = self._thread.submit(call), ()

    def wait(self) -> None:
        """Return once what was handed over is committed: now the models may change."""
        self.start()
        running, self._running = self._running, None
        if running is None:
            return
        if not wait([running], timeout=COMMIT_S).done:
            raise InputError(
                f"{self._store.uri}: a commit took more than {COMMIT_S:.0f} s and was given up: "
                "is the storage reachable?"
            )
        self._committed = running.result()

    def finish(self) -> None:
        """Commit what was handed over, and call the listeners."""
        self.wait()
        self._call_listeners()

    def _call_listeners(self) -> None:
        records, self._committed = self._committed, []
        if records:
            for listener in self._listeners:
                listener(records)

    def _write(self, cycle: Sequence[PendingCommit]) -> list[CycleRecord]:
        began = time.monotonic()
        records = []
        for pending in cycle:
            arm, changes = pending.arm, pending.changes
            for path, data in pending.snapshots.items():
                self._store.create(path, bytes(data))
            # An arm that starts from another has a champion, but no files of its own yet.
            if changes is not None or (arm.has_champion and not arm.files):
                arm.files = self._write_model(arm, changes, pending.record.cycle)
            norms = champion_norms(arm.model, arm.mean_of) if arm.has_champion else None
            records.append(pending.record.model_copy(update={"model": arm.files, "norms": norms}))
        commit(self._store, records)
        for record in records:
            try:
                self._delete_old_models(record)
            except (InputError, OSError) as error:  # committed all the same; the next one retries
                log.warning("%s: old models are still there: %s", self._store.uri, error)
        self.seconds = time.monotonic() - began
        return records

    def _write_model(
        self, arm: ArmState, changes: AnyChanges | None, cycle: int
    ) -> tuple[FileRef, ...]:
        data = None
        if changes is not None and not needs_full(arm.files):
            data = arm.trainer.save_delta(arm.model, changes)
        full = data is None
        data = arm.trainer.save(arm.model) if data is None else data
        path = model_path(arm.name, cycle, delta=not full)
        self._store.create(path, data)
        file = FileRef(path, hashlib.sha256(data).hexdigest(), len(data))
        return (file,) if full else (*arm.files, file)

    def _delete_old_models(self, record: CycleRecord) -> None:
        folder, kept = f"models/{record.arm}", self._retention
        used = {file.path for file in record.model}
        names = self._store.names(folder)
        for name in unneeded_models(names, record.cycle, kept.keep_last, kept.keep_every):
            if f"{folder}/{name}" not in used:
                self._store.delete(f"{folder}/{name}")
        if record.lineages is not None:
            self._delete_old_snapshots(record)

    def _delete_old_snapshots(self, record: CycleRecord) -> None:
        """Delete the snapshots of lines that none of the last cycles needs."""
        used = {file.path for file in files_of(record)}
        for name in self._store.names(f"lines/{record.arm}"):
            path = f"lines/{record.arm}/{name}"
            last = record.cycle if path in used else self._line_files.get(path, record.cycle)
            self._line_files[path] = last
            if record.cycle - last >= self._retention.keep_last:
                self._store.delete(path)
                del self._line_files[path]


def needs_full(files: Sequence[FileRef]) -> bool:
    """Whether the next model is written in full: once the deltas are as large as their base.

    So the bytes written, and the bytes that a resume reads, stay within twice what changes.
    """
    if not files:
        return True
    base, *deltas = files
    return len(deltas) >= MAX_DELTAS or sum(delta.size for delta in deltas) >= base.size
