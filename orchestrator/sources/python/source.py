"""An object of the user's own as a stream of cycles: its rows become events like those of files."""

import json
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from divergence import own_code
from divergence.errors import InputError, one_line
from orchestrator.sources.files.chunks import Chunks, Part
from orchestrator.sources.files.files import File, file_system
from orchestrator.sources.files.mapping.columns import plain
from orchestrator.sources.files.mapping.features import (
    Mapped,
    columns_in_file,
    mapped,
    present_columns,
    unused_rules,
)
from orchestrator.sources.files.mapping.label_hints import frequent
from orchestrator.sources.files.mapping.mistakes import mistakes, with_others
from orchestrator.sources.files.rows import Block, Rows
from orchestrator.sources.protocol import Events
from orchestrator.sources.python.config import PythonConfig
from trainer.events import column
from trainer.features import FeatureSpec


class PythonSource:
    """The rows that the user's object gives, mapped, checked and in order of time."""

    def __init__(
        self,
        config: PythonConfig,
        spec: FeatureSpec,
        run_uri: str | None,
        stop: threading.Event | None,
    ) -> None:
        self.spec, self._name = spec, config.object
        self._reading = config
        made = own_code.load(config.object)
        self._object = self._called("", made, **config.options)
        self._object.stop = stop or threading.Event()
        if not callable(getattr(self._object, "events", None)):
            raise InputError(f"{config.object}: must have a method events(self, cycle)")
        self._run_uri = run_uri

    def events(self, cycle: int) -> Events | None:
        """The events of a cycle, or None after the last."""
        given = self._called(f".events({cycle})", self._object.events, cycle)
        if given is None:
            return None
        origin = f"{self._name} cycle {cycle}"
        table = self._as_table(given, origin)
        try:
            rows = _OneTable(table, self._reading, self.spec, origin)
            return Chunks(rows, "", self._run_uri).events(cycle, [rows.part], origin)
        except InputError as error:
            if cycle or not table.num_columns:
                raise
            found = mistakes(Rows(table), table.column_names, self._reading, self.spec)
            raise with_others(error, found, origin) from error

    def _called(self, what: str, function: Any, *args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except Exception as error:
            raise InputError(f"{self._name}{what}: {own_code.blame(error)}") from error

    def _as_table(self, given: Any, origin: str) -> pa.Table:
        try:
            if isinstance(given, pa.Table):
                return given
            if isinstance(given, pd.DataFrame):
                return pa.Table.from_pandas(given, preserve_index=False)
            return pa.table(given) if isinstance(given, dict) else pa.Table.from_pylist(list(given))
        except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{origin}: must be a pyarrow Table, a pandas DataFrame, a dict of columns, a list "
                f"of dicts, or None after the last cycle: {one_line(error)}"
            ) from error


class _OneTable:
    """A table in the place of a decoded file."""

    def __init__(
        self, table: pa.Table, reading: PythonConfig, spec: FeatureSpec, origin: str
    ) -> None:
        self.reading, self.spec, self._table = reading, spec, table
        wanted = columns_in_file(reading, spec)
        if unused := unused_rules(reading, spec):
            raise InputError("\n".join(unused))
        try:
            columns = present_columns(wanted, table.column_names, reading, spec)
        except InputError as error:
            if table.num_columns:
                raise InputError(f"{origin}: {error}") from None
            columns = []  # a cycle in which nothing happened may have no columns either
        self._selected = table.select(columns).combine_chunks()
        fs, _ = file_system("", {})
        block = Block(0, 0, 1, len(table))
        self.part = Part(File(fs, "", origin, 0), block, np.arange(len(table)))

    def decode(self, file: File, block: Block) -> Mapped:
        """The rows in the features' columns."""
        try:
            return mapped(Rows(self._selected), self.reading, self.spec)
        except (InputError, pa.ArrowException) as error:
            raise InputError(f"{file.name}: {one_line(error)}") from error

    def label_values(self, file: File, block: Block) -> tuple[str, list[str]]:
        """The column that the label is read from, and its values."""
        name = columns_in_file(self.reading, self.spec)[self.spec.label]
        there = name in self._table.column_names
        return name, frequent(plain(column(self._table, name))) if there else []

    def raw(self, file: File, block: Block, rows: Sequence[int]) -> list[tuple[int, str]]:
        """The numbers, from 1, and contents of these rows."""
        taken = self._table.take(pa.array(rows, pa.int64())).to_pylist()
        texts = (json.dumps(row, default=str, ensure_ascii=False) for row in taken)
        return [(row + 1, text) for row, text in zip(rows, texts, strict=True)]
