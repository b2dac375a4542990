"""Runs of lines without Ray: resuming, replacement, starting from another arm."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.config.schema import PublishConfig, RunConfig
from orchestrator.journal.models import read_model
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import prepare
from orchestrator.loop import lines_arm
from orchestrator.loop.run import run
from orchestrator.offline.replay import replay
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import open_origin
from orchestrator.publish.publisher import Publisher
from orchestrator.sources.protocol import Events
from orchestrator.sources.simulator.source import Simulator
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import go_here, records
from trainer.modelfile import save_model
from trainer.outcome import Status

LINES = ("search.select={kind: lineages, replace_every: [1, 2], start: {eta0: 6}}",
         "source.events_per_cycle=150", "source.ads=1000",
         "search.ranges.eta0={low: 0.03, high: 300}")  # fmt: skip


@pytest.fixture(autouse=True)
def many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_arm, "SNAPSHOT_CYCLES", 3)


def go(config: RunConfig, where: Path) -> list[CycleRecord]:
    go_here(config, where)
    return records(where, config.arms[0].name)


def files(where: Path) -> dict[str, bytes]:
    found = [path for kind in ("models", "lines") for path in (where / kind).rglob("*.*")]
    return {str(path.relative_to(where)): path.read_bytes() for path in found}


def reproducible(where: Path, arm: str) -> list[object]:
    blank = {"driver": "", "started": "", "timings": {}, "outcomes": ()}
    return [record.model_copy(update=blank) for record in records(where, arm)]


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (1, ()),
        pytest.param(5, ("arms.1.start_from={arm: production, cycle: 4}",), marks=pytest.mark.slow),
    ],
)
def test_a_resumed_run_is_the_same_to_the_bit(
    tmp_path: Path, first: int, more: tuple[str, ...]
) -> None:
    cycles = 10
    found = go(small(f"cycles={cycles}", *LINES, *more), tmp_path / "once")
    for count in range(first, cycles + 1):
        go(small(f"cycles={count}", *LINES, *more), tmp_path / "resumed")
    for arm in ("production", "entropic"):
        assert reproducible(tmp_path / "once", arm) == reproducible(tmp_path / "resumed", arm)
    once, resumed = files(tmp_path / "once"), files(tmp_path / "resumed")
    assert [name for name in once if once[name] != resumed.get(name)] == []
    assert any(name.startswith("lines/") for name in once)
    replaced = [one for record in found if record.lineages for one in record.lineages.replaced]
    assert {one.reason.split()[0] for one in replaced} >= {"worse"}


@pytest.mark.slow
def test_any_cycle_of_any_line_is_replayed_to_the_same_bits(tmp_path: Path) -> None:
    start = "arms.1.start_from={arm: production, cycle: 4}"
    config = small("cycles=10", *LINES, start, "retention={keep_last: 1}", "search.instances=4")
    found = go(config, tmp_path)
    store = open_store(str(tmp_path))
    assert len(store.names("lines/production")) <= 4
    again = [
        replay(store, arm, cycle, line).same
        for arm, cycles in (("production", (0, 4, 9)), ("entropic", (4, 8)))
        for cycle in cycles
        for line in range(4)
    ]
    assert again == [True] * len(again)
    assert any(record.lineages.replaced for record in found[:9] if record.lineages)


def test_every_line_lost_keeps_its_model_and_takes_smaller_steps(tmp_path: Path) -> None:
    hot = ("search.ranges.eta0={low: 1e5, high: 1e6}", "search.ranges.alpha=0.001",
           "arms=[{name: only, rule: none}]", "cycles=3")  # fmt: skip
    found = go(small(*LINES, *hot), tmp_path)
    assert [record.winner for record in found] == [None] * 3
    assert [record.model for record in found] == [()] * 3
    for before, after in pairwise(found):
        assert after.lineages is not None
        assert after.lineages.why.startswith("every line was lost")
        for one, other in zip(before.outcomes, after.outcomes, strict=True):
            assert other.setting.eta0 == pytest.approx(max(one.setting.eta0 / 2, 1e5), rel=1e-5)


def test_the_champion_is_a_line_and_the_record_says_why(tmp_path: Path) -> None:
    found = go(small("cycles=12", *LINES), tmp_path)
    champions = []
    for before, after in pairwise(found):
        assert before.lineages is not None
        assert after.lineages is not None
        champion, other = before.lineages.state.champion, after.lineages.state.champion
        assert champion is not None
        champions.append(other)
        assert after.served_logloss == after.lineages.served[champion]
        if other != champion:
            assert f"line {champion} " in after.lineages.why
            assert ".delta." not in after.model[-1].path
        assert other not in [one.line for one in after.lineages.replaced]
        lost = {o.instance for o in after.outcomes if o.status is Status.DIVERGED}
        assert lost <= {one.line for one in after.lineages.replaced}
    assert len(set(champions)) > 1


def test_champions_are_published(tmp_path: Path) -> None:
    config, store = small("cycles=8", *LINES), open_store(str(tmp_path / "run"))
    place = open_store(str(tmp_path / "place"))
    publisher = Publisher(config, store, place, PublishConfig(to=str(tmp_path / "place")))

    def publish(committed: Sequence[CycleRecord]) -> None:
        assert publisher.publish(committed[0]) is not None

    run(config, store, prepare(store, config), [publish], LocalLinePool)
    follower = Follower(open_origin(str(tmp_path / "place")))
    follower.advance()
    last = records(tmp_path / "run", "production")[-1]
    model = read_model(store, last.model, follower.model.config)
    assert save_model(follower.model) == save_model(model)
    assert follower.model.cycle == 7


def with_other_users(events: Events) -> Events:
    """As many events and clicks as before, but those of other users."""
    at = events.table.column_names.index("geo")
    column = events.table.column(at).combine_chunks()
    return replace(events, table=events.table.set_column(at, "geo", column[::-1]))


@pytest.mark.parametrize("changed", [lambda events: None, with_other_users], ids=["gone", "other"])
def test_lines_continue_from_the_champion_where_old_events_are_not_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    changed: Callable[[Events], Events | None],
) -> None:
    go(small("cycles=6", *LINES), tmp_path)
    events = Simulator.events

    def now(self: Simulator, cycle: int) -> Events | None:
        found = events(self, cycle)
        return found if cycle > 5 else changed(found)

    monkeypatch.setattr(Simulator, "events", now)
    found = go(small("cycles=7", *LINES), tmp_path)
    assert "no longer returns the events of cycle" in caplog.text
    assert found[-1].cycle == 6
    assert found[-1].lineages is not None
    assert len(set(found[-1].lineages.served)) == 1
    assert len({o.logloss for o in found[-1].outcomes}) > 1


def test_cycles_without_events_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Simulator.events

    def with_gaps(self: Simulator, cycle: int) -> Events:
        found = events(self, cycle)
        return replace(found, table=found.table.slice(0, 0)) if cycle in (0, 3, 4) else found

    monkeypatch.setattr(Simulator, "events", with_gaps)
    start = "arms.1.start_from={arm: production, cycle: 4}"
    found = go(small("cycles=7", *LINES, start), tmp_path / "once")
    for count in range(5, 8):
        go(small(f"cycles={count}", *LINES, start), tmp_path / "resumed")
    for arm in ("production", "entropic"):
        assert reproducible(tmp_path / "once", arm) == reproducible(tmp_path / "resumed", arm)
    assert [record.cycle for record in found if not record.outcomes] == [0, 3, 4]
    assert found[0].lineages is None
    assert found[3].lineages is not None
    assert found[3].lineages.why == "there were no events"
