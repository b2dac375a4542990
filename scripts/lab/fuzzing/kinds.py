"""All kinds of input."""

from collections.abc import Mapping

from scripts.lab.fuzzing.case import Kind
from scripts.lab.fuzzing.configs import Configs
from scripts.lab.fuzzing.events import EventFiles, make_csv, make_jsonl, make_parquet
from scripts.lab.fuzzing.journals import Journals
from scripts.lab.fuzzing.leases import Leases
from scripts.lab.fuzzing.models import Models
from scripts.lab.fuzzing.requests import Requests

_ALL: tuple[Kind, ...] = (
    Configs(),
    EventFiles("csv", make_csv, 10),
    EventFiles("jsonl", make_jsonl, 10),
    EventFiles("parquet", make_parquet, 10),
    Journals(),
    Models(),
    Leases(),
    Requests(),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
