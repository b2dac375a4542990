"""Every vector of an aborted instance as it stopped: made by training it again, kept as a file.

The journal tells that an instance diverged, not how large each of its vectors was. `holdfast
report --aborts` trains chosen ones again and keeps what it finds beside the report, so that the
next report needs neither the source nor the model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import pandas as pd
import pyarrow.parquet as pq

from divergence.errors import InputError
from orchestrator.report.load import Run
from orchestrator.storage.store import Store, read
from trainer.outcome import Status

NAME = re.compile(r"(?P<arm>.+)-cycle-(?P<cycle>\d{6})-instance-(?P<instance>\d+)\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class AbortId:
    """An instance that diverged."""

    arm: str
    cycle: int
    instance: int

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"{self.arm}-cycle-{self.cycle:06d}-instance-{self.instance}.parquet"


@dataclass(frozen=True, slots=True, eq=False)
class Abort:
    """An aborted instance; `vectors` has a row each: feature, value, norm (inf), updates."""

    run: str
    which: AbortId
    tau: float
    vectors: pd.DataFrame


def abort_in(name: str) -> AbortId | None:
    """The instance that a file's name means."""
    found = NAME.fullmatch(name)
    if found is None:
        return None
    return AbortId(found["arm"], int(found["cycle"]), int(found["instance"]))


def asked_for(text: str) -> AbortId:
    """The instance that ARM:CYCLE:INSTANCE means."""
    arm, *numbers = text.rsplit(":", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise InputError(f"--abort {text}: must be ARM:CYCLE:INSTANCE, as production:12:3")
    return AbortId(arm, int(numbers[0]), int(numbers[1]))


def found_in(runs: Sequence[Run], which: AbortId) -> list[Run]:
    """The runs in which this instance diverged; InputError where there is none."""
    found = []
    for run in runs:
        records = (r for r in run.records.get(which.arm, ()) if r.cycle == which.cycle)
        outcomes = (o for record in records for o in record.outcomes)
        if any(o.instance == which.instance and o.status is Status.DIVERGED for o in outcomes):
            found.append(run)
    if not any(which.arm in run.records for run in runs):
        raise InputError(f"--abort {which.arm}:…: no run has an arm {which.arm!r}")
    if not found:
        raise InputError(
            f"--abort {which.arm}:{which.cycle}:{which.instance}: in no run has this instance "
            "diverged; instances.csv lists those that have"
        )
    return found


def choose(instances: pd.DataFrame, most: int) -> list[AbortId]:
    """Up to `most` aborts of one run, of its arms in turn.

    Of each arm the newest cycles come first, since their models are still there, and of a cycle
    the instance that trained longest before it diverged: there most has grown.
    """
    lost = instances[instances["status"] == "diverged"]
    newest = lost.sort_values(["cycle", "events_done"], ascending=False, kind="stable")
    queues: dict[str, list[AbortId]] = {}
    for arm, cycle, instance in zip(
        *(newest.drop_duplicates(["arm", "cycle"])[key] for key in ("arm", "cycle", "instance")),
        strict=True,
    ):
        queues.setdefault(arm, []).append(AbortId(arm, int(cycle), int(instance)))
    longest = max(map(len, queues.values()), default=0)
    turns = [queue[i] for i in range(longest) for queue in queues.values() if i < len(queue)]
    return turns[:most]


def kept(store: Store, runs: Sequence[Run]) -> list[Abort]:
    """The aborts of these runs whose vectors stand beside the report."""
    found = []
    for run in runs:
        for name in store.names(f"aborts/{run.name}"):
            which = abort_in(name)
            if which is not None and which.arm in run.records:
                data = read(store, f"aborts/{run.name}/{name}")
                vectors = pq.read_table(BytesIO(data)).to_pandas()
                found.append(Abort(run.name, which, run.config.model.tau, vectors))
    return found
