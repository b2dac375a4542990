"""Files of events: CSV, JSON lines and Parquet, read as a run reads them."""

import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.config.file import load_config
from orchestrator.config.schema import feature_spec
from orchestrator.sources.opening import open_source
from scripts.lab.fuzzing.case import Case
from scripts.lab.fuzzing.hostile import TEXTS, mutated, mutated_bytes, render, scalar, yaml_scalar
from scripts.lab.fuzzing.sandbox import Failure, Sandbox
from scripts.lab.fuzzing.shrink import smaller

MAX_CYCLES = 60
START = 1_704_067_200
SUFFIXES = {"csv": "csv", "jsonl": "jsonl", "parquet": "parquet"}
CONFIG: dict[str, Any] = {
    "source": {
        "kind": "files",
        "path": "",
        "cut": {"events": 10},
        "timestamp": {"unit": "s"},
        "max_broken_share": 1.0,
    },
    "features": {
        "user": ["age", "gender"],
        "ad": ["ad", {"name": "genres", "multi": True, "weights": "weights"}],
    },
    "arms": [{"name": "a"}],
}
CUTS: tuple[dict[str, Any], ...] = (
    {"events": 10}, {"events": 3}, {"minutes": 5}, {"minutes": 1, "start": "2024-01-01T00:03:00Z"},
    {"minutes": 1e-9}, {"minutes": 1e13}, {"minutes": 0.01}, {"events": 10**18},
)  # fmt: skip
COLUMNS: tuple[dict[str, Any], ...] = (
    {}, {"age": {"bins": [18, 25]}}, {"age": {"log": 2}}, {"age": {"round": 10}},
    {"age": {"slice": [0, 1]}}, {"age": {"slice": [0, 2**70]}}, {"age": {"round": 1e-300}},
    {"ad": {"optional": True}}, {"age": {"column": "gender"}}, {"age": {"log": 1.0000001}},
)  # fmt: skip


class EventFiles:
    """Files of one format."""

    def __init__(self, name: str, make: Callable[[random.Random, bool], bytes], share: int) -> None:
        self.name, self._make, self.share = name, make, share

    def generate(self, rng: random.Random) -> Case:
        """A small file and the config to read it with; either or both are mutated."""
        iso = rng.random() < 0.3
        config = json.loads(json.dumps(CONFIG))
        source = config["source"]
        source["cut"] = rng.choice(CUTS[:4] if rng.random() < 0.8 else CUTS)
        source["columns"] = rng.choice(COLUMNS[:4] if rng.random() < 0.8 else COLUMNS)
        if iso or rng.random() < 0.1:
            del source["timestamp"]
        if rng.random() < 0.2:
            source["click"] = rng.choice(("click == 1", "age >= 30", "ad != ad3", "click > 0"))
        if self.name == "csv":
            source["columns"] = source["columns"] | {"genres": {"split": "|"}}
            source["columns"] |= {"weights": {"split": "|"}}
        if rng.random() < 0.2:
            source["max_broken_share"] = 0.01
        if rng.random() < 0.1:
            config["source"] = mutated(rng, source, _plain_scalar)
        return Case(self.name, self._make(rng, iso), {"config": config})

    def run(self, case: Case, box: Sandbox) -> None:
        """Read all cycles with a quarantine in the run folder."""
        path = box.inputs / f"events.{SUFFIXES[self.name]}"
        path.write_bytes(case.body)
        config = case.head["config"]
        if isinstance(config.get("source"), dict) and config["source"].get("path") == "":
            config = config | {"source": config["source"] | {"path": str(path)}}
        (box.inputs / "run.yaml").write_text(render(config), "utf-8", "surrogatepass")
        box.step(lambda: self._read(box))

    def _read(self, box: Sandbox) -> None:
        config = load_config(str(box.inputs / "run.yaml"))
        if config.source.kind != "files":  # type: ignore[attr-defined]
            return
        stream = open_source(config.source, feature_spec(config.features), str(box.out / "run"))
        for cycle in range(MAX_CYCLES):
            events = stream.events(cycle)
            if events is None:
                break
            events.table.validate(full=True)
        for path in (box.out / "run").rglob("*.jsonl"):
            for line in path.read_bytes().splitlines():
                if not isinstance(json.loads(line), dict):
                    raise Failure("a line of the quarantine is not an object")

    def command(self, case: Case, box: Sandbox) -> list[str]:
        """What the stream contains."""
        return ["describe", str(box.inputs / "run.yaml"), "--cycles", str(MAX_CYCLES), "--json"]

    def simpler(self, case: Case) -> Iterator[Case]:
        """Fewer lines and bytes, then fewer keys of the source."""
        if self.name != "parquet" or len(case.body) < 200:
            for body in smaller(case.body):
                yield Case(self.name, body, case.head)
        config = case.head["config"]
        if isinstance(config["source"], dict):
            for key in config["source"]:
                rest = {k: v for k, v in config["source"].items() if k != key}
                yield Case(self.name, case.body, {"config": config | {"source": rest}})


def _plain_scalar(rng: random.Random) -> Any:
    """A hostile value that a case's head can store."""
    value = yaml_scalar(rng)
    return str(value)[:5_000] if type(value) not in (int, float, str, bool, type(None)) else value


def _row(n: int, iso: bool) -> dict[str, Any]:
    time: Any = f"2024-01-01T00:{n:02d}:00Z" if iso else START + 60 * n
    return {
        "timestamp": time,
        "click": n % 2,
        "age": 20 + n % 9,
        "gender": "mf"[n % 2],
        "ad": f"ad{n % 5}",
        "genres": ["x", "y"][: n % 3],
        "weights": [1.0, 0.5][: n % 3],
    }


def make_csv(rng: random.Random, iso: bool) -> bytes:
    """A header and a few lines, some of their fields and bytes mutated."""
    rows = [_row(n, iso) for n in range(rng.choice((0, 1, 12, 25)))]
    lines = [list(_row(0, iso))]
    for row in rows:
        fields = ["|".join(map(str, v)) if isinstance(v, list) else str(v) for v in row.values()]
        if rng.random() < 0.1:
            fields[rng.randrange(len(fields))] = _text(rng)
        lines.append(fields)
    if rng.random() < 0.05:
        lines[0][rng.randrange(7)] = rng.choice(lines[0] + list(TEXTS[:20]))
    data = "".join(",".join(fields) + "\n" for fields in lines).encode("utf-8", "surrogatepass")
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        data = mutated_bytes(rng, data)
    return data


def make_jsonl(rng: random.Random, iso: bool) -> bytes:
    """A few objects, some with hostile values, some lines mutated."""
    lines = []
    for n in range(rng.choice((0, 1, 12, 25))):
        row: Any = _row(n, iso)
        while rng.random() < 0.1:
            row = mutated(rng, row, scalar)
        line = render(row).replace("\n", " ")
        lines.append(line.encode("utf-8", "surrogatepass") + b"\n")
    data = b"".join(lines)
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        data = mutated_bytes(rng, data)
    return data


def _text(rng: random.Random) -> str:
    value = scalar(rng)
    return str(value) if isinstance(value, str | int | float) else render(value)


# -- Parquet ------------------------------------------------------------------------------------

_INTEGERS = ("uint64", "int64", "uint32", "int32", "uint8", "int8", "uint16", "int16")
_UNITS = ("s", "ms", "us", "ns")


def make_parquet(rng: random.Random, iso: bool) -> bytes:
    """A table with some columns of odd types, written with odd options, some bytes mutated."""
    count = rng.choice((0, 1, 12, 25))
    rows = [_row(n, iso) for n in range(count)]
    columns: list[tuple[str, Any]] = []
    for name in _row(0, iso):
        values = pa.array([row[name] for row in rows])
        columns.append((name, _odd_array(rng, count) if rng.random() < 0.12 else values))
    chance = rng.random()
    if chance < 0.04:
        columns.append((rng.choice(columns)[0], _odd_array(rng, count)))
    elif chance < 0.08:
        del columns[rng.randrange(len(columns))]
    elif chance < 0.1:
        columns.append((rng.choice(TEXTS[:16]), _odd_array(rng, count)))
    data = _written(rng, pa.table([a for _, a in columns], [name for name, _ in columns]))
    for _ in range(rng.choice((0, 0, 1, 1, 3))):
        at = max(0, len(data) - rng.choice((8, 1_000, 3_000, 3_000, len(data))))
        data = data[:at] + mutated_bytes(rng, data[at:])
    return data


def _written(rng: random.Random, table: Any) -> bytes:
    buffer = io.BytesIO()
    options: dict[str, Any] = {
        "row_group_size": rng.choice((1, 5, 1_000)),
        "compression": rng.choice(("none", "snappy", "gzip", "zstd", "lz4")),
        "use_dictionary": rng.random() < 0.5,
        "write_statistics": rng.random() < 0.8,
        "data_page_version": rng.choice(("1.0", "2.0")),
    }
    try:
        pq.write_table(table, buffer, **options)
    except (pa.ArrowException, UnicodeError):  # Parquet has no such type, or no such name
        table = table.select([0]).rename_columns(["click"])
        buffer = io.BytesIO()
        pq.write_table(pa.table({"click": pa.array([0] * len(table))}), buffer)
    return buffer.getvalue()


def _odd_array(rng: random.Random, count: int) -> Any:
    kind = rng.randrange(12)
    if kind == 0:
        limits = np.iinfo(rng.choice(_INTEGERS))
        values = [rng.choice((limits.min, limits.max, 0, 1)) for _ in range(count)]
        return pa.array(values, pa.from_numpy_dtype(limits.dtype))
    if kind == 1:
        return pa.array([rng.choice((b"\xff\xfe", b"", b"a", None))] * count, pa.binary())
    if kind in (2, 3):
        ticks = [rng.choice((-(2**63), 2**63 - 1, 0, START, 2**53, None)) for _ in range(count)]
        zone = rng.choice((None, "UTC", "Europe/Berlin", "+14:00"))
        return pa.array(ticks, pa.int64()).cast(pa.timestamp(rng.choice(_UNITS), zone))
    if kind == 4:
        days = [rng.choice((-(2**31), 2**31 - 1, 0, 19_000)) for _ in range(count)]
        return pa.array(days, pa.int32()).cast(pa.date32())
    if kind == 5:
        floats = [rng.choice((float("nan"), float("inf"), -1e300, 1e-300, 0.5, None))] * count
        return pa.array(floats, rng.choice((pa.float64(), pa.float32())))
    if kind == 6:
        texts = [rng.choice(TEXTS).encode("utf-8", "ignore").decode() for _ in range(count)]
        return pa.array(texts, rng.choice((pa.string(), pa.large_string())))
    if kind == 7:
        return pa.array(["a", "b"][: min(2, count)] * count).dictionary_encode()[:count]
    if kind == 8:
        return pa.array([[{"value": "a", "weight": 1.0}, {"value": None, "weight": -1.0}]] * count)
    if kind == 9:
        pairs = [[("a", rng.choice((1.0, -1.0, float("nan"))))]] * count
        return pa.array(pairs, pa.map_(pa.string(), pa.float64()))
    if kind == 10:
        return pa.array([{"a": {"b": 1}}] * count)
    return rng.choice((
        pa.nulls(count),
        pa.array([True, None] * count)[:count],
        pa.array([[1, None], None, []] * count)[:count],
        pa.array([[[1]]] * count),
        pa.array([10**30] * count, pa.decimal128(38, 2)) if count else pa.nulls(0),
        pa.array([1] * count, pa.time64("us")),
        pa.array([1] * count, pa.duration("us")),
        pa.array([b"ab"] * count, pa.binary(2)),
    ))  # fmt: skip
