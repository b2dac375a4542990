"""Lines on Ray: the same bits as in one process, whatever happens to the actors."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from orchestrator.journal.record import CycleRecord
from orchestrator.loop import lines_arm
from orchestrator.loop.run import Ending
from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.messages import LineBatch, LineReply, LineSnapshot, Task
from support.configs import small
from support.ray_runs import faulty, go
from support.runs import Heard, bits, go_here, records
from trainer.chunk import Chunk
from trainer.instance import Trained
from trainer.kernel import Tables
from trainer.lines import Lines
from trainer.outcome import Status

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_of_two_cores")]

LINES = ("search.select={kind: lineages, replace_every: [1, 2], start: {eta0: 6}}", "cycles=8",
         "source.events_per_cycle=200", "source.ads=1000", "patience_s=2",
         "search.ranges.eta0={low: 0.03, high: 300}")  # fmt: skip
CONFIG = small(*LINES)
ONE = "arms=[{name: only, rule: l2}]"


@pytest.fixture(scope="module", autouse=True)
def many_snapshots() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_arm, "SNAPSHOT_CYCLES", 3)
        yield


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("calm")
    go_here(CONFIG, folder)
    return bits(folder, CONFIG)


def lines_of(record: CycleRecord) -> dict[int, str]:
    assert record.lineages is not None
    return {one.line: one.reason for one in record.lineages.replaced}


def test_one_actor_gives_the_same_bits(calm: dict[str, object], tmp_path: Path) -> None:
    """As two do, in the tests below: most of their cycles are calm."""
    go(CONFIG, tmp_path, actors=1)
    assert bits(tmp_path, CONFIG) == calm
    assert any(name.startswith("lines") for name in calm)


def test_actors_come_and_go(calm: dict[str, object], tmp_path: Path) -> None:
    sizes = chain([2, 2, 1, 1, 2, 2, 1, 2], repeat(2))
    go(CONFIG, tmp_path, actors=lambda: next(sizes))
    assert bits(tmp_path, CONFIG) == calm


@pytest.mark.parametrize("kind", ["kill", "raise", "hang"])
def test_lost_lines_are_made_again(calm: dict[str, object], tmp_path: Path, kind: str) -> None:
    class LaterFaulty(faulty(tmp_path, kind, [1, 3], 1, LineTrainer)):  # type: ignore[misc]
        """Goes wrong once there are snapshots and copies to make lines from."""

        def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
            lines = self.lines.get("entropic")
            if lines is None or lines.cycle < 5:
                return LineTrainer.train_one(self, chunk, start, task, end)
            return super().train_one(chunk, start, task, end)  # type: ignore[no-any-return]

    go(CONFIG, tmp_path / "run", trainer=LaterFaulty)
    assert (tmp_path / "fault-0").exists()
    assert bits(tmp_path / "run", CONFIG) == calm


@pytest.mark.parametrize("phases", [["export_model"], ["export_rows", "_arrange", "_rebuilt"]])
def test_an_actor_dies_when_it_does_not_train(
    calm: dict[str, object], tmp_path: Path, phases: list[str]
) -> None:
    """It has a new champion, or a line that is copied elsewhere, or makes lost lines again."""

    class Fickle(LineTrainer):
        def export_model(self, arm: str, line: int) -> LineSnapshot:
            self._die_once("export_model")
            return super().export_model(arm, line)

        def export_rows(self, arm: str, line: int) -> Tables:
            self._die_once("export_rows")
            return super().export_rows(arm, line)

        def _arrange(self, batch: LineBatch, lines: Lines, data: tuple[Any, ...]) -> None:
            if batch.cycle == 5:
                self._die_once("_arrange")
            super()._arrange(batch, lines, data)

        def _rebuilt(self, batch: LineBatch, data: tuple[Any, ...]) -> Lines:
            if any(one.steps for one in batch.rebuilds):
                self._die_once("_rebuilt")
            return super()._rebuilt(batch, data)

        def _die_once(self, phase: str) -> None:
            if phase in phases and not (tmp_path / phase).exists():
                (tmp_path / phase).touch()
                os.kill(os.getpid(), signal.SIGKILL)

    go(CONFIG, tmp_path / "run", trainer=Fickle)
    assert [phase for phase in phases if not (tmp_path / phase).exists()] == []
    assert bits(tmp_path / "run", CONFIG) == calm


def test_a_stopped_run_goes_on_bit_for_bit_on_an_object_store(
    calm: dict[str, object], bucket: str
) -> None:
    stop = threading.Event()
    ended = go(CONFIG, bucket, view=Heard(stop, stop_after=4), stop=stop)
    assert ended.ending is Ending.STOPPED
    assert go(CONFIG, bucket, actors=1).ending is Ending.COMPLETE
    assert bits(bucket, CONFIG) == calm


def test_a_mean_of_lines_is_the_same_with_an_actor_killed_and_on_resume(tmp_path: Path) -> None:
    config = small(*LINES, ONE, "serve.mean_of=3")
    go_here(config, tmp_path / "calm")

    class Dying(LineTrainer):
        """Ends once with a member that was trained, and once with one whose model is asked for."""

        def train_lines(self, batch: LineBatch, chunk: Chunk, *data: Any) -> LineReply:
            reply = super().train_lines(batch, chunk, *data)
            if batch.cycle == 5 and reply.rows:
                self._die_once("member")
            return reply

        def export_model(self, arm: str, line: int) -> LineSnapshot:
            self._die_once("export")
            return super().export_model(arm, line)

        def _die_once(self, phase: str) -> None:
            if not (tmp_path / phase).exists():
                (tmp_path / phase).touch()
                os.kill(os.getpid(), signal.SIGKILL)

    stop = threading.Event()
    go(config, tmp_path / "run", view=Heard(stop, stop_after=3), stop=stop, trainer=Dying)
    assert len(records(tmp_path / "run", "only")) < 8
    go(config, tmp_path / "run", trainer=Dying)
    assert (tmp_path / "member").exists()
    assert (tmp_path / "export").exists()
    assert bits(tmp_path / "run", config) == bits(tmp_path / "calm", config)


def test_a_poisonous_line_fails_and_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "faults").mkdir()
    trainer = faulty(tmp_path / "faults", "kill", [2], 3, LineTrainer)
    go(small(*LINES, ONE, "cycles=2", "tries=2"), tmp_path / "run", trainer=trainer)
    first, second = records(tmp_path / "run", "only")
    assert first.outcomes[2].status is Status.FAILED
    assert first.outcomes[2].reason.endswith("(2 tries)")
    assert lines_of(first)[2] == "it failed"
    assert second.outcomes[2].status is not Status.FAILED


def test_at_the_deadline_late_lines_skip_the_chunk(tmp_path: Path) -> None:
    class Slow(LineTrainer):
        """Line 3 does not listen, and line 4 is late."""

        def train_one(self, chunk: Chunk, start: Tables, task: Task, end: float) -> Trained:
            if task.instance == 3:
                time.sleep(1000)
            while task.instance == 4 and time.monotonic() < end:
                time.sleep(0.01)
            return super().train_one(chunk, start, task, end)

    config = small(*LINES, ONE, "cycles=2", "deadline_s=12", "patience_s=30")
    began = time.monotonic()
    go(config, tmp_path / "run", trainer=Slow)
    assert time.monotonic() - began < 200  # it does not wait for the one that sleeps
    for record in records(tmp_path / "run", "only"):
        assert record.outcomes[3].status is Status.LATE
        assert record.winner is not None or record.outcomes[0].status is not Status.RETAINED
        assert record.lineages is not None
        assert record.cycle in record.lineages.origins[3].skipped
