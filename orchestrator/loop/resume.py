"""A source at the start of a run: does it still give what was trained, and is there more?"""

import logging

from divergence.errors import InputError
from orchestrator.journal.record import ChunkInfo
from orchestrator.journal.run_folder import ResumePoint
from orchestrator.sources.digest import digest_of
from orchestrator.sources.protocol import Events, Resumable, Source
from trainer.events import column
from trainer.features import FeatureSpec

log = logging.getLogger(__name__)


def resume_source(source: Source, start: ResumePoint) -> None:
    """Let the source add what is new. InputError if the events of the last cycle have changed."""
    if not isinstance(source, Resumable):
        return
    chunks = [record.chunk for record in start.records.values()]
    source.resume(start.cycle, lambda events: _check(events, source.spec, chunks[0]))


def _check(events: Events, spec: FeatureSpec, trained: ChunkInfo) -> None:
    if is_what_was_trained(events, spec, trained):
        return
    if trained.digest is None:  # a record of an earlier version, which did not note its files
        log.warning(
            "cycle %d was trained with %d events, and its source now gives %d: the others are "
            "skipped",
            events.cycle,
            trained.events,
            len(events.table),
        )
        return
    raise InputError(
        f"cycle {events.cycle}: the source no longer gives the events that were trained "
        f"({trained.origin}): was a file replaced? Restore it, or start again with another --out"
    )


def is_what_was_trained(events: Events, spec: FeatureSpec, trained: ChunkInfo) -> bool:
    """Whether these are the events of a record. An old record has only their counts."""
    if trained.digest is not None:
        return digest_of(events.table) == trained.digest
    clicks = int(column(events.table, spec.label).to_numpy(zero_copy_only=False).sum())
    return (len(events.table), clicks) == (trained.events, trained.clicks)
