"""The vectors of an aborted instance at the moment it stopped, stored as a file.

The journal says that an instance diverged, but not how large each of its vectors was. `holdfast
report --aborts` retrains chosen instances and stores their vectors and their stories beside the
report, so that the next report needs neither the source nor the model.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from divergence.errors import InputError, one_line
from orchestrator.offline.story import DUAL_ASCENT, Story, load_story
from orchestrator.report.load import Run
from orchestrator.storage.store import Store, read
from trainer.outcome import Status

COLUMNS = ["feature", "value", "norm", "updates"]
FILENAME = re.compile(r"(?P<arm>.+)-cycle-(?P<cycle>\d{6})-instance-(?P<instance>\d+)\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class AbortId:
    """An instance that diverged."""

    arm: str
    cycle: int
    instance: int

    @property
    def filename(self) -> str:
        """The file that holds its vectors."""
        return f"{self.arm}-cycle-{self.cycle:06d}-instance-{self.instance}.parquet"

    @property
    def story_filename(self) -> str:
        """The file that holds its story."""
        return self.filename.removesuffix(".parquet") + ".story.json"


@dataclass(frozen=True, slots=True, eq=False)
class Abort:
    """An aborted instance; `vectors` has the columns feature, value, norm (inf) and updates.

    `story` is that of one instance of each run; it is None for the others.
    """

    run: str
    which: AbortId
    tau: float
    vectors: pd.DataFrame
    story: Story | None = None


def parse_filename(name: str) -> AbortId | None:
    """The instance that a file belongs to; None for any other file."""
    found = FILENAME.fullmatch(name)
    if found is None:
        return None
    return AbortId(found["arm"], int(found["cycle"]), int(found["instance"]))


def parse_abort(text: str) -> AbortId:
    """Parse ARM:CYCLE:INSTANCE."""
    arm, *numbers = text.rsplit(":", 2)
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        raise InputError(f"--abort {text}: must be ARM:CYCLE:INSTANCE, such as production:12:3")
    return AbortId(arm, int(numbers[0]), int(numbers[1]))


def runs_with_abort(runs: Sequence[Run], which: AbortId) -> list[Run]:
    """The runs in which this instance diverged; InputError if there is none."""
    found = []
    for run in runs:
        records = (r for r in run.records.get(which.arm, ()) if r.cycle == which.cycle)
        outcomes = (o for record in records for o in record.outcomes)
        if any(o.instance == which.instance and o.status is Status.DIVERGED for o in outcomes):
            found.append(run)
    if not any(which.arm in run.records for run in runs):
        raise InputError(f"--abort {which.arm}:…: no run has an arm named {which.arm!r}")
    if not found:
        raise InputError(
            f"--abort {which.arm}:{which.cycle}:{which.instance}: this instance did not diverge "
            "in any run; instances.csv lists the instances that did"
        )
    return found


def choose_aborts(instances: pd.DataFrame, limit: int) -> list[AbortId]:
    """Up to `limit` aborts of one run, taken from its arms in turn.

    The newest cycles of an arm come first, because their models still exist. From each cycle we
    take the instance that trained longest before it diverged: its vectors had most time to grow.
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
    return turns[:limit]


def load_aborts(store: Store, runs: Sequence[Run]) -> list[Abort]:
    """The aborts of these runs whose vectors are stored beside the report."""
    found = []
    for run in runs:
        folder = f"aborts/{run.name}"
        names = set(store.names(folder))
        for name in sorted(names):
            which = parse_filename(name)
            if which is not None and which.arm in run.records:
                vectors = _vectors(store, f"{folder}/{name}")
                path = f"{folder}/{which.story_filename}"
                has_story = which.story_filename in names
                story = load_story(read(store, path), f"{store.uri}/{path}") if has_story else None
                found.append(Abort(run.name, which, run.config.model.tau, vectors, story))
    return found


def story_rank(rule: str, events_done: int) -> tuple[bool, int]:
    """The story of a run is that of the highest rank: the instance that trained longest.

    Instances of dual ascent itself have theirs shown only where there is no other.
    """
    return rule != DUAL_ASCENT, events_done


def best_stories(aborts: Sequence[Abort]) -> dict[str, Story]:
    """The story of each run, by the run's name."""
    stories = [(abort.run, abort.story) for abort in aborts if abort.story is not None]
    stories.sort(key=lambda one: story_rank(one[1].rule, one[1].events_done))
    best = dict(stories)
    return {abort.run: best[abort.run] for abort in aborts if abort.run in best}


def _vectors(store: Store, path: str) -> pd.DataFrame:
    try:
        table = pq.read_table(BytesIO(read(store, path)), columns=COLUMNS)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{store.uri}/{path}: not the vectors of an abort: {one_line(error)}: delete it"
        ) from None
    vectors: pd.DataFrame = table.to_pandas()
    return vectors
