"""Runs that serve the mean of several lines: what is served, and the same bits in any case."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from orchestrator.config.schema import PublishConfig, RunConfig
from orchestrator.journal.models import served_text
from orchestrator.journal.record import CycleRecord, LinesRecord, members_of
from orchestrator.journal.run_folder import prepare
from orchestrator.loop import lines_arm
from orchestrator.loop.run import run
from orchestrator.offline.replay import replay
from orchestrator.offline.score_files import champion_of
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.lines.progress import LinesProgress
from orchestrator.pool.lines.trainer_actor import LineTrainer
from orchestrator.pool.messages import LineBatch, LineReply, LinesResult
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import open_origin
from orchestrator.publish.publisher import Publisher
from orchestrator.publish.rollback import roll_back
from orchestrator.sources.protocol import Events
from orchestrator.sources.simulator.source import Simulator
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import bits, go_here, go_with, records
from trainer.chunk import Chunk
from trainer.lines import Lines
from trainer.mean_model import mean_model
from trainer.model import Model
from trainer.modelfile import save_model
from trainer.outcome import Status
from trainer.scoring import log_loss, predict

MEAN = ("search.select={kind: lineages, replace_every: [1, 2], start: {eta0: 6}}",
        "source.events_per_cycle=150", "source.ads=1000", "serve.mean_of=3",
        "search.ranges.eta0={low: 0.03, high: 300}")  # fmt: skip
ONE = ("arms=[{name: only, rule: l2}]", "cycles=9")
LATER = "arms.1.start_from={arm: production, cycle: 4}"


@pytest.fixture(autouse=True)
def many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_arm, "SNAPSHOT_CYCLES", 3)


def lines_of(record: CycleRecord) -> LinesRecord:
    assert record.lineages is not None
    return record.lineages


def served_model(where: Path, config: RunConfig, record: CycleRecord) -> Model:
    return champion_of(open_store(str(where)), config, record.arm, record.cycle)[1]


def vectors(model: Model) -> dict[object, tuple[bytes, int, int]]:
    """All vectors with their sums, by value."""
    found: dict[object, tuple[bytes, int, int]] = {}
    for side in (model.user, model.ad):
        for key, row in side.index.items():
            found[key] = side.rows[row].tobytes(), int(side.updates[row]), int(side.seen[row])
    return found


class Watched(LocalLinePool):
    """Makes the mean of the members from the lines themselves, and notes what it served."""

    mean: Model | None = None
    served: list[float | None]

    def results(self) -> Iterator[LinesResult]:
        (arm,) = self._arms
        now = None
        if Watched.mean is not None:
            tables = Watched.mean.gather(arm.chunk, Watched.mean.cycle).tables
            now = log_loss(predict(Watched.mean.shape, arm.chunk, tables), arm.chunk.click)
        Watched.served.append(now)
        for result in super().results():
            lines, judged = self._trainer.lines[arm.name], result.judgement
            parents = {one.line: one.parent for one in judged.replaced}
            of = [parents.get(line, line) for line in judged.state.members]
            Watched.mean = mean_model([lines.as_model(line) for line in of])
            yield result


def test_what_is_served_is_the_mean_of_the_members(tmp_path: Path) -> None:
    Watched.mean, Watched.served = None, []
    config = small(*MEAN, *ONE, "model.accumulators={decay: 0.9}")
    go_with(Watched, config, tmp_path, None, None)
    found = records(tmp_path, "only")
    assert Watched.mean is not None
    served = served_model(tmp_path, config, found[-1])
    assert vectors(served) == vectors(Watched.mean)
    np.testing.assert_array_equal(served.bias, Watched.mean.bias)
    assert found[0].served_logloss is None
    recorded = [record.served_logloss for record in found[1:]]
    assert recorded == pytest.approx(Watched.served[1:], rel=1e-5)
    for before, after in pairwise(found):
        champion, members = lines_of(after).state.champion, lines_of(after).state.members
        assert len(set(members)) == 3
        assert champion in members
        full = ".delta." not in after.model[-1].path
        if set(members) - set(lines_of(before).state.members):
            assert full, "a new member comes with its whole model"
        assert not {one.line for one in lines_of(after).replaced} & set(members)
    kinds = [".delta." in record.model[-1].path for record in found]
    assert {True, False} == set(kinds)
    norms = found[-1].norms
    assert norms is not None
    assert 0 < norms.max_inf < config.model.tau


@pytest.mark.parametrize(
    ("first", "more"), [(1, ()), pytest.param(5, (LATER,), marks=pytest.mark.slow)]
)
def test_a_resumed_run_is_the_same_to_the_bit(
    tmp_path: Path, first: int, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with cycles without events, of which one is that in which an arm starts."""
    events = Simulator.events

    def with_gaps(self: Simulator, cycle: int) -> Events:
        found = events(self, cycle)
        return replace(found, table=found.table.slice(0, 0)) if cycle in (0, 4) else found

    monkeypatch.setattr(Simulator, "events", with_gaps)
    cycles = 9
    go_here(small(f"cycles={cycles}", *MEAN, *more), tmp_path / "once")
    for count in range(first, cycles + 1):
        go_here(small(f"cycles={count}", *MEAN, *more), tmp_path / "resumed")
    config = small(f"cycles={cycles}", *MEAN, *more)
    once, resumed = bits(tmp_path / "once", config), bits(tmp_path / "resumed", config)
    assert [name for name in once if once[name] != resumed.get(name)] == []


@pytest.mark.slow
def test_lines_are_replayed_also_of_an_arm_that_starts_from_a_mean(tmp_path: Path) -> None:
    config = small("cycles=7", *MEAN, LATER, "retention={keep_last: 1}", "search.instances=4")
    go_here(config, tmp_path)
    store = open_store(str(tmp_path))
    again = [
        replay(store, arm, cycle, line).same
        for arm, cycle in (("production", 6), ("entropic", 4), ("entropic", 6))
        for line in (0, 3)
    ]
    assert again == [True] * len(again)


class Late(LineTrainer):
    """Some lines skip a chunk, as they do at a deadline."""

    def _train_lines(self, batch: LineBatch, lines: Lines, chunk: Chunk, end: float) -> LineReply:
        train_one = self.train_one
        late = batch.served[:2] if batch.cycle in (5, 6) else ()

        def some(chunk: Chunk, start: object, task: object, end: float) -> object:
            soon = 0.0 if task.instance in late else end  # type: ignore[attr-defined]
            return train_one(chunk, start, task, soon)  # type: ignore[arg-type]

        self.train_one = some  # type: ignore[method-assign, assignment]
        try:
            return super()._train_lines(batch, lines, chunk, end)
        finally:
            self.train_one = train_one  # type: ignore[method-assign]


class LatePool(Watched):
    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._trainer = Late(*given)  # type: ignore[arg-type]

    def start(self, arms: Sequence[LinesProgress], deadline: float | None = None) -> None:
        super().start(arms, deadline)
        for arm in arms:
            arm._closing = True  # as after the deadline: nothing is retried


def test_a_late_member_stays_with_the_rows_it_had(tmp_path: Path) -> None:
    Watched.mean, Watched.served = None, []
    config = small(*MEAN, *ONE, "model.accumulators={decay: 0.9}")
    go_with(LatePool, config, tmp_path / "late", None, None)
    found = records(tmp_path / "late", "only")
    late = [o.instance for o in found[6].outcomes if o.status is Status.LATE]
    assert len(late) == 2
    assert set(late) <= set(lines_of(found[6]).state.members)
    assert found[7].served_logloss == pytest.approx(Watched.served[7], rel=1e-5)
    assert Watched.mean is not None
    served = served_model(tmp_path / "late", config, found[-1])
    assert vectors(served) == vectors(Watched.mean)
    np.testing.assert_array_equal(served.bias, Watched.mean.bias)


def test_a_mean_of_all_lines_keeps_those_that_are_replaced(tmp_path: Path) -> None:
    Watched.mean, Watched.served = None, []
    config = small(*MEAN, *ONE, "serve.mean_of=6", "arms=[{name: only, rule: none}]")
    go_with(Watched, config, tmp_path, None, None)
    found = records(tmp_path, "only")
    assert any(lines_of(record).replaced for record in found)
    assert {len(lines_of(record).state.members) for record in found} == {6}
    assert Watched.mean is not None
    assert vectors(served_model(tmp_path, config, found[-1])) == vectors(Watched.mean)


def test_means_are_published_scored_and_rolled_back(tmp_path: Path) -> None:
    config, store = small("cycles=8", *MEAN), open_store(str(tmp_path / "run"))
    place = open_store(str(tmp_path / "place"))
    deltas, whole = (
        Publisher(config, store, open_store(str(tmp_path / name)),
                  PublishConfig(to=str(tmp_path / name), deltas=name == "place"))
        for name in ("place", "whole")
    )  # fmt: skip

    def publish(committed: Sequence[CycleRecord]) -> None:
        assert deltas.publish(committed[0]) is not None
        assert whole.publish(committed[0]) is not None

    run(config, store, prepare(store, config), [publish], LocalLinePool)
    record, model = champion_of(store, config, "production", None)
    assert record.cycle == 7
    members = ", ".join(map(str, members_of(record)))
    assert members.count(",") == 2
    said = f"the mean of lines {members} of production after cycle 7"
    assert served_text(record, config, "production") == said
    assert model.config.overlap == 3 * config.model.overlap
    for name in ("place", "whole", "run"):
        follower = Follower(open_origin(str(tmp_path / name)))
        follower.advance()
        assert save_model(follower.model) == save_model(model)
    before = roll_back(place)
    follower = Follower(open_origin(str(tmp_path / "place")))
    assert follower.advance().version == before
    assert follower.model.cycle == 6


def test_another_run_starts_from_the_best_line_of_a_mean(tmp_path: Path) -> None:
    config = small(*MEAN, *ONE)
    go_here(config, tmp_path / "first")
    start = f"arms=[{{name: second, rule: l2, start_from: {{run: {tmp_path / 'first'}}}}}]"
    for name, mean_of in (("mean", 3), ("alone", 1)):
        second = small(*MEAN, f"serve.mean_of={mean_of}", start, "source.seed=8", "cycles=2")
        go_here(second, tmp_path / name)
        first = records(tmp_path / name, "second")[0]
        # All lines are still the same, so their mean serves what each of them serves.
        assert first.served_logloss == pytest.approx(lines_of(first).served[0], rel=2e-2)
        assert len(set(lines_of(first).served)) == 1
        go_here(second, tmp_path / name)
        assert replay(open_store(str(tmp_path / name)), "second", 0, 1).same


def test_the_mean_continues_from_the_champion_where_old_events_are_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(*MEAN, *ONE)
    go_here(config.model_copy(update={"cycles": 6}), tmp_path)
    events = Simulator.events

    def now(self: Simulator, cycle: int) -> Events | None:
        return events(self, cycle) if cycle > 5 else None

    monkeypatch.setattr(Simulator, "events", now)
    Watched.mean, Watched.served = None, []
    go_with(Watched, config, tmp_path, None, None)
    found = records(tmp_path, "only")
    assert len(set(lines_of(found[6]).served)) == 1
    assert ".delta." not in found[6].model[-1].path
    assert vectors(served_model(tmp_path, config, found[-1])) == vectors(Watched.mean)  # type: ignore[arg-type]
