"""Criteo's and Avazu's display-ad logs: one large file, converted block by block in order.

Criteo: label, 13 integers, 26 categories, tabs, no header, no time; rows are in time order.
Avazu: CSV with a header; hour is YYMMDDHH.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from divergence.errors import InputError
from orchestrator.sources.files.files import find_files
from orchestrator.sources.files.mapping.numbers import numbers_of
from orchestrator.sources.files.readers.csv_reader import CsvReader
from orchestrator.sources.files.reading import Csv

CRITEO_INTEGERS = tuple(f"i{n}" for n in range(1, 14))
CRITEO = ("label", *CRITEO_INTEGERS, *(f"c{n}" for n in range(1, 27)))


def convert_criteo(given: Path) -> Iterator[pa.Table]:
    """From train.txt."""
    dialect = Csv(delimiter="\t", quote=None, columns=CRITEO)
    for table in _tables(given, "train.txt", dialect):
        for name in ("label", *CRITEO_INTEGERS):
            values = pa.array(numbers_of(table.column(name).combine_chunks()).values)
            whole = pc.if_else(pc.is_finite(values), values, None).cast(pa.int64())
            table = table.set_column(table.column_names.index(name), name, whole)
        yield table


def convert_avazu(given: Path) -> Iterator[pa.Table]:
    """From train.csv."""
    for table in _tables(given, "train.csv", Csv(delimiter=",")):
        if missing := {"click", "hour"} - set(table.column_names):
            raise InputError(f"{given} has no column {sorted(missing)[0]!r}")
        clicks = numbers_of(table.column("click").combine_chunks()).values
        times = pc.strptime(table.column("hour"), "%y%m%d%H", "s", error_is_null=True)
        table = table.set_column(table.column_names.index("click"), "click", pa.array(clicks))
        yield table.add_column(0, "timestamp", times.cast(pa.timestamp("s", "UTC")))


def _tables(given: Path, name: str, dialect: Csv) -> Iterator[pa.Table]:
    """The good rows of the given file, or of `name` (perhaps gzipped) in the given folder."""
    path = given
    if given.is_dir():
        there = [found for n in (name, f"{name}.gz") if (found := given / n).exists()]
        if not there:
            raise InputError(f"{given} has no {name} or {name}.gz")
        path = there[0]
    (file,) = find_files(str(path), {})
    reader = CsvReader(file, dialect)
    for block in reader.blocks():
        rows = reader.read(block, reader.columns())
        if rows.broken:
            good = [n for n in range(block.rows) if n not in rows.broken]
            yield rows.table.take(pa.array(good, pa.int64()))
        else:
            yield rows.table
