"""What is logged of a cycle, and of an arm: plain numbers by tag, and parameters."""

from dataclasses import dataclass
from typing import Any

from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import leaves
from orchestrator.report.frames import OTHERS, cycle_values
from orchestrator.watch.health import committed_at
from trainer.setting import PARAMETERS

GROUPS = {
    "instances": ("retained_fraction", "useful_fraction", "failed", "late"),
    "loss": ("logloss", "served_logloss", "constant_logloss", "gain"),
    "champion": (*PARAMETERS, "max_inf"),
    "time": ("seconds", "train_seconds"),
}
"""The columns of cycles that are logged, and `gain`; a tag is GROUP/COLUMN."""


@dataclass(frozen=True, slots=True)
class TrackedCycle:
    """A cycle of an arm. `at` is when it was committed, in Unix seconds."""

    arm: str
    cycle: int
    at: float
    values: dict[str, float]
    """By tag; without those that the cycle does not have."""


def tracked(record: CycleRecord) -> TrackedCycle:
    """What is logged of a record."""
    columns = cycle_values(record)
    served, constant = columns["served_logloss"], columns["constant_logloss"]
    if served is not None and constant > 0:
        columns["gain"] = 100.0 * (1.0 - served / constant)  # as the glossary defines it
    tags = {f"{group}/{name}": name for group, names in GROUPS.items() for name in names}
    tags |= {f"champion/{name}": name for name in columns if name.startswith(OTHERS)}
    values = {tag: columns.get(name) for tag, name in tags.items()}
    known = {tag: float(value) for tag, value in values.items() if value is not None}
    return TrackedCycle(record.arm, record.cycle, committed_at(record).timestamp(), known)


def parameters(config: RunConfig, arm: str) -> dict[str, Any]:
    """The config as an arm sees it: one value by dotted key. It holds no secrets, as in a run
    folder."""
    data = config.model_dump(mode="json", exclude={"arms", "track"}, exclude_none=True)
    own = next(one for one in config.arms if one.name == arm)
    data["arm"] = own.model_dump(mode="json", exclude_none=True)
    found = dict(leaves(data))
    return {key: value for key, value in found.items() if isinstance(value, str | int | float)}
