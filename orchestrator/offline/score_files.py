"""Score files of events with the champion of a run."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.journal.journal import cycles_of, newest_committed, read_record
from orchestrator.journal.models import read_trained, served_trainer
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.offline.unseen import UnseenValues
from orchestrator.sources.files.decoder import Decoder
from orchestrator.sources.files.files import File, find_files
from orchestrator.sources.files.reading import Column, Reading
from orchestrator.sources.files.rows import Block
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.store import Store
from trainer.features import FeatureSpec


def champion_of(
    store: Store, config: RunConfig, arm: str, cycle: int | None
) -> tuple[CycleRecord, Any]:
    """An arm's champion after a cycle (None: the newest), and the record of that cycle."""
    record = _record(store, config, arm, cycle)
    if not record.model:
        raise InputError(f"{store.uri}: {arm} has no champion after cycle {record.cycle}")
    spec = resolve_spec(config.source, feature_spec(config.features))
    return record, read_trained(store, record.model, served_trainer(config, spec))


def score_files(
    model: Any, config: RunConfig, path: str, unseen: UnseenValues | None = None
) -> Iterator[pa.Table]:
    """The predicted click probability of every row of these files, in order, a table per block.

    The files are read and mapped like those of the run. They need neither labels nor times. Rows
    are numbered from 1 in each file, without header and blank lines. A row that cannot be read gets
    a null. `unseen` counts the values of those that can be read.
    """
    count = None if unseen is None else unseen.add
    trainer = served_trainer(config, model.config.spec)
    spec = replace(model.config.spec, timestamp=None)
    reading = _without_label(config.source.reading, spec)
    decoder = Decoder(reading, spec)
    for file in find_files(path, reading.storage_options):
        first = 1
        for block in _blocks(decoder, file):
            rows = decoder.decode(file, block)
            good = np.ones(len(rows.table), bool)
            good[list(rows.broken)] = False
            probabilities = np.full(len(good), np.nan)
            probabilities[good] = trainer.score(model, rows.table.filter(pa.array(good)), count)
            numbers = np.arange(first, first + len(good))
            first += len(good)
            yield pa.table({
                "file": pa.DictionaryArray.from_arrays(np.zeros(len(good), np.int32), [file.name]),
                "row": numbers,
                "pctr": pa.array(probabilities, mask=~good),
            })  # fmt: skip


def _blocks(decoder: Decoder, file: File) -> Iterator[Block]:
    """The blocks of a file; InputError with all mistakes in its columns."""
    try:
        return decoder.blocks(file)
    except InputError as error:
        raise decoder.with_others(error, file) from error


def _record(store: Store, config: RunConfig, arm: str, cycle: int | None) -> CycleRecord:
    arms = {a.name: a.first_cycle for a in config.arms}
    if arm not in arms:
        raise InputError(f"--arm {arm}: must be one of {', '.join(arms)}")
    if cycle is None:
        found = newest_committed(store, arms)
        if arm not in found.records:
            raise InputError(f"{store.uri}: {arm} has no committed cycle yet")
        return found.records[arm]
    if cycle not in cycles_of(store, arm):
        raise InputError(f"--cycle {cycle}: {arm} has no such cycle in {store.uri}")
    try:
        return read_record(store, arm, cycle)
    except CorruptError as error:
        raise InputError(f"{store.uri}/{error}") from None


def _without_label(reading: Reading, spec: FeatureSpec) -> Reading:
    """The same, but with an optional label."""
    columns = reading.columns | {spec.label: Column(optional=True)}
    return reading.model_copy(update={"columns": columns})
