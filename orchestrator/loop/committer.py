"""Commits, one after the other, in a thread of their own: models first, then records, in order.

A commit reads the models while the next cycle trains from copies; whoever changes a model waits
for the last commit first. When it begins is for the driver to say: not while actors wait for it.
"""

import hashlib
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass

from divergence.errors import InputError
from orchestrator.config.schema import Retention
from orchestrator.journal.journal import commit, expendable, model_path
from orchestrator.journal.norms import champion_norms
from orchestrator.journal.record import CycleRecord, FileRef
from orchestrator.loop.arm_state import ArmState
from orchestrator.storage.store import Store
from trainer.model import Changes
from trainer.modelfile import save_delta, save_model

MOST_DELTAS = 96
"""A full model at least so often: a day of 15-minute cycles."""
COMMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """An arm's cycle, trained and to be committed: its record but for the model and its norms."""

    line: ArmState
    record: CycleRecord
    changes: Changes | None


class Committer:
    """Writes cycles to a run folder, each after the one before it."""

    def __init__(self, store: Store, retention: Retention) -> None:
        self._store, self._retention = store, retention
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._next: Sequence[PendingCommit] | None = None
        self._under_way: Future[list[CycleRecord]] | None = None
        self.seconds = 0.0
        """What the last commit took."""

    def take(self, cycle: Sequence[PendingCommit]) -> None:
        """The next cycle to commit: a sealed record of each arm, in the order of the arms."""
        self._next = cycle

    def begin(self) -> None:
        """Begin to commit what was taken last."""
        if self._next is not None:
            self._under_way, self._next = self._thread.submit(self._write, self._next), None

    def wait(self) -> list[CycleRecord]:
        """The records of the commit that was begun or is to begin, once it is done; else none."""
        self.begin()
        under_way, self._under_way = self._under_way, None
        try:
            return [] if under_way is None else under_way.result(timeout=COMMIT_S)
        except FutureTimeout:
            raise InputError(
                f"{self._store.uri}: a commit has taken more than {COMMIT_S:.0f} s: the cycle is "
                "lost; is the storage well?"
            ) from None

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _write(self, cycle: Sequence[PendingCommit]) -> list[CycleRecord]:
        began = time.monotonic()
        records = []
        for sealed in cycle:
            line, changes = sealed.line, sealed.changes
            inherited = (
                line.crowned and not line.files
            )  # from another arm: not yet in its own files
            if changes is not None or inherited:
                line.files = self._write_model(line, changes, sealed.record.cycle)
            norms = champion_norms(line.model) if line.crowned else None
            records.append(sealed.record.model_copy(update={"model": line.files, "norms": norms}))
        commit(self._store, records)
        for record in records:
            self._clear_out(record)
        self.seconds = time.monotonic() - began
        return records

    def _write_model(
        self, line: ArmState, changes: Changes | None, cycle: int
    ) -> tuple[FileRef, ...]:
        data = (
            None if changes is None or needs_full(line.files) else save_delta(line.model, changes)
        )
        whole = data is None
        data = save_model(line.model) if data is None else data
        path = model_path(line.arm.name, cycle, delta=not whole)
        self._store.create(path, data)
        file = FileRef(path, hashlib.sha256(data).hexdigest(), len(data))
        return (file,) if whole else (*line.files, file)

    def _clear_out(self, record: CycleRecord) -> None:
        folder = f"models/{record.arm}"
        kept = self._retention
        names = self._store.names(folder)
        used = {file.path for file in record.model}
        for name in expendable(names, record.cycle, kept.keep_last, kept.keep_every):
            if f"{folder}/{name}" not in used:
                self._store.delete(f"{folder}/{name}")


def needs_full(files: Sequence[FileRef]) -> bool:
    """Whether the next model is written whole: once the deltas weigh as much as their base.

    So what is written, and what a resume reads, stays within twice what changes.
    """
    if not files:
        return True
    base, *deltas = files
    return len(deltas) >= MOST_DELTAS or sum(d.size for d in deltas) >= base.size
