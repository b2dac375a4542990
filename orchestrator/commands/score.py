"""`holdfast score`: click probabilities from a run's champion."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from divergence.errors import InputError
from orchestrator.commands.options import run_argument
from orchestrator.journal.run_folder import run_config
from orchestrator.offline.score_files import champion_of, score_files
from orchestrator.storage.open import open_store


@click.command(
    "score", epilog="Example: holdfast score runs/demo events.parquet --out pctr.parquet"
)
@run_argument
@click.argument("events")
@click.option("--arm", help="Whose champion. Default: the first arm's.")
@click.option("--cycle", type=click.IntRange(min=0), help="As of this cycle. Default: the newest.")
@click.option("--out", type=click.Path(path_type=Path), help="A .parquet or .csv. Default: stdout.")
def command(run: str, events: str, arm: str | None, cycle: int | None, out: Path | None) -> None:
    """Score EVENTS (a file, folder, glob or URI) with the champion of RUN.

    EVENTS are read as the run reads its own files; labels and times are not needed. One line for
    every row: its file, its number and its predicted click probability.
    """
    store = open_store(run)
    config = run_config(store)
    at, model = champion_of(store, config, arm or config.arms[0].name, cycle)
    rows, broken = 0, 0
    parts = score_files(model, config, events)
    first = next(parts, None)  # what is wrong with EVENTS is told before anything is written
    with _writer(out) as write:
        for part in chain([] if first is None else [first], parts):
            write(part)
            rows, broken = rows + len(part), broken + part.column("pctr").null_count
    note = f"; {broken} could not be read and have none" if broken else ""
    click.echo(f"{rows} rows scored by the champion of cycle {at}{note}", err=True)


@contextmanager
def _writer(out: Path | None) -> Iterator[Callable[[pa.Table], None]]:
    """Writes tables of the scores' schema, one after the other."""
    schema = pa.schema({"file": pa.dictionary(pa.int32(), pa.string()), "row": pa.int64(),
                        "pctr": pa.float64()})  # fmt: skip
    plain = pa.schema({"file": pa.string(), "row": pa.int64(), "pctr": pa.float64()})
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out {out}: must end in .parquet or .csv")
    if out is not None and out.suffix == ".parquet":
        with _opened(out, lambda: pa.parquet.ParquetWriter(out, schema)) as parquet:
            yield lambda part: parquet.write_table(part.cast(schema))
    else:
        with _opened(out, lambda: pa.csv.CSVWriter(out or sys.stdout.buffer, plain)) as csv:
            yield lambda part: csv.write_table(part.cast(plain))


def _opened(out: Path | None, writer: Callable[[], Any]) -> Any:
    try:
        return writer()
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror or error}") from error
