"""Other trainers than OFFSET on a real Ray, whose processes die on the way: the bits stay."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.trainer_actor import TrainerActor
from support.ray_runs import faulty, go
from support.runs import bits, go_here, records
from support.trainers import config_of, own_trainers

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]
LINES = "search.select={kind: lineages, replace_every: [1]}"


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    with own_trainers():
        yield


@pytest.mark.parametrize(
    ("trainer", "more", "actor"),
    [
        ("torch", (), TrainerActor),
        ("river", (LINES,), LineTrainer),
        ("own", (LINES,), LineTrainer),
    ],
)
def test_a_process_that_is_killed_changes_no_bit(
    tmp_path: Path, trainer: str, more: tuple[str, ...], actor: type[TrainerActor]
) -> None:
    config = config_of(trainer, *more, "cycles=3", "patience_s=120", events=120)
    go_here(config, tmp_path / "here")
    (tmp_path / "faults").mkdir()
    deadly = faulty(tmp_path / "faults", "kill", [1], 2, actor)
    go(config, tmp_path / "ray", trainer=deadly)
    assert bits(tmp_path / "here", config) == bits(tmp_path / "ray", config)
    tries = [o.tries for r in records(tmp_path / "ray", config.arms[0].name) for o in r.outcomes]
    assert max(tries) > 1
