"""Every vector of an aborted instance as it stopped: made by training it again, kept as a file.

The journal tells that an instance diverged, not how large each of its vectors was. `holdfast
report --aborts` trains chosen ones again and keeps what it finds beside the report, so that the
next report needs neither the source nor the model.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

COLUMNS = ("feature", "value", "norm", "updates")
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


def choose(instances: pd.DataFrame, cycles: Iterable[tuple[str, int]], most: int) -> list[AbortId]:
    """Up to `most` aborts of one run whose cycle can be trained again, spread over the arms.

    `cycles` are the arms and cycles with a model to start from. Of each arm the newest come
    first, and of a cycle the one that trained longest before it diverged: most has grown there.
    """
    lost = instances[instances["status"] == "diverged"]
    possible = set(cycles)
    chances: dict[str, list[AbortId]] = {}
    ordered = lost.sort_values(["cycle", "events_done"], ascending=False, kind="stable")
    for row in ordered.drop_duplicates(["arm", "cycle"]).itertuples():
        key = str(row.arm), int(str(row.cycle))
        if key in possible:
            chances.setdefault(key[0], []).append(AbortId(*key, int(str(row.instance))))
    return _in_turn(list(chances.values()))[:most]


def _in_turn(queues: Sequence[list[AbortId]]) -> list[AbortId]:
    longest = max(map(len, queues), default=0)
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]
