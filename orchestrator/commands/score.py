"""`holdfast score`: predicts click probabilities with a run's champion."""

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
from orchestrator.commands.options import code_option, run_argument
from orchestrator.journal.models import served_text
from orchestrator.journal.run_folder import run_config
from orchestrator.offline.score_files import champion_of, score_files
from orchestrator.offline.unseen import UnseenValues
from orchestrator.storage.open import open_store


@click.command(
    "score", epilog="Example: holdfast score runs/demo events.parquet --out pctr.parquet"
)
@run_argument
@code_option
@click.argument("events")
@click.option("--arm", help="Use this arm's champion. Default: the first arm.")
@click.option(
    "--cycle",
    type=click.IntRange(min=0),
    help="Use the champion of this cycle. Default: the newest.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Output file, .parquet or .csv. Default: stdout."
)
def command(run: str, events: str, arm: str | None, cycle: int | None, out: Path | None) -> None:
    """Score EVENTS (a file, folder, glob or URI) with the champion of RUN.

    EVENTS must have the format of the run's own files; labels and timestamps are not needed. The
    output has one line per row: file, row number (from 1, the header does not count) and predicted
    click probability. At the end it says which features have values that the model does not know.
    """
    store = open_store(run)
    config = run_config(store)
    record, model = champion_of(store, config, arm or config.arms[0].name, cycle)
    rows, broken = 0, 0
    unseen = UnseenValues(model) if config.trainer.kind == "offset" else None
    parts = score_files(model, config, events, unseen)
    first = next(parts, None)  # bad EVENTS fail before anything is written
    with _writer(out) as write:
        for part in chain([] if first is None else [first], parts):
            write(part)
            rows, broken = rows + len(part), broken + part.column("pctr").null_count
    note = f"; {broken} rows could not be read and have no score" if broken else ""
    click.echo(f"scored {rows} rows with {served_text(record, config, arm)}{note}", err=True)
    for line in unseen.lines() if unseen else ():
        click.echo(line, err=True)


@contextmanager
def _writer(out: Path | None) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends a table of scores to the output."""
    schema = pa.schema({"file": pa.dictionary(pa.int32(), pa.string()), "row": pa.int64(),
                        "pctr": pa.float64()})  # fmt: skip
    plain = pa.schema({"file": pa.string(), "row": pa.int64(), "pctr": pa.float64()})
    if out is not None and out.suffix not in (".parquet", ".csv"):
        raise InputError(f"--out {out}: must end in .parquet or .csv")
    if out is not None and out.suffix == ".parquet":
        with _open_writer(out, lambda: pa.parquet.ParquetWriter(out, schema)) as parquet:
            yield lambda part: parquet.write_table(part.cast(schema))
    else:
        with _open_writer(out, lambda: pa.csv.CSVWriter(out or sys.stdout.buffer, plain)) as csv:
            yield lambda part: csv.write_table(part.cast(plain))


def _open_writer(out: Path | None, writer: Callable[[], Any]) -> Any:
    try:
        return writer()
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror or error}") from error
