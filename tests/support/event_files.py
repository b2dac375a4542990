"""Small event files for the tests of file sources."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from orchestrator.sources.files.config import FilesConfig
from orchestrator.sources.follow.config import FollowConfig
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Events, Source
from trainer.features import Feature, FeatureSpec

SPEC = FeatureSpec(user=(Feature("age"),), ad=(Feature("ad"),))
HEADER = "timestamp,click,age,ad\n"


def rows(n: int, first_s: int = 0, step_s: int = 60) -> list[dict[str, Any]]:
    """Events a minute apart from the first second of 2024 on; `ad` counts them."""
    start = 1_704_067_200 + first_s
    return [
        {"timestamp": start + i * step_s, "click": i % 2, "age": str(20 + i % 3), "ad": f"ad{i}"}
        for i in range(n)
    ]


def csv_text(events: list[dict[str, Any]]) -> str:
    return HEADER + "".join(f"{','.join(str(v) for v in e.values())}\n" for e in events)


def jsonl_text(events: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(e) + "\n" for e in events)


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    """Write events in the format of the suffix."""
    if path.suffix == ".csv":
        path.write_text(csv_text(events))
    elif path.suffix == ".jsonl":
        path.write_text(jsonl_text(events))
    else:
        pq.write_table(pa.Table.from_pylist(events), path, row_group_size=7)
    return path


def source(
    path: Path | str | list[str], spec: FeatureSpec = SPEC, place: str | None = None, **more: Any
) -> Source:
    where = path if isinstance(path, list) else str(path)
    config = {"path": where, "timestamp": {"unit": "s"}, "cut": {"events": 10}, **more}
    return open_source(FilesConfig.model_validate(config), spec, place)


def follow(path: Path | str, place: str | None = None, stop: Any = None, **more: Any) -> Source:
    config = {"path": str(path), "timestamp": {"unit": "s"}, "poll_s": 0.02, "settle_s": 0, **more}
    return open_source(FollowConfig.model_validate(config), SPEC, place, stop)


def all_events(stream: Source) -> list[Events]:
    found = []
    while (events := stream.events(len(found))) is not None:
        found.append(events)
    return found


def ads(events: Events | None) -> list[str]:
    assert events is not None
    return events.table.column("ad").to_pylist()
