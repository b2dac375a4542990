"""Streams that a run may meet: with holes, with an end, without one, broken."""

import random
import threading
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.config.file import read_config
from orchestrator.loop.run import Ending
from orchestrator.pool.protocol import Pool
from support.runs import Heard, bits, go_here, go_with, records

HEAD = "timestamp,click,age,gender,device,campaign,category\n"
REST = """
features: {user: [age, gender, device], ad: [campaign, category]}
search: {instances: 3}
arms: [{name: only, rule: l2}]
"""


def rows(first_s: int, seed: int, n: int = 200) -> str:
    roll = random.Random(seed)
    lines = [
        f"{1_704_067_200 + first_s + i},{roll.randrange(2)},a{roll.randrange(5)},"
        f"g{roll.randrange(2)},d{roll.randrange(3)},c{roll.randrange(20)},k{roll.randrange(4)}\n"
        for i in range(n)
    ]
    return "".join(lines)


def test_a_cycle_without_events_is_committed_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(HEAD + rows(0, 1) + rows(1300, 2))
    source = f"source: {{kind: files, path: {tmp_path}/events.csv, cut: {{minutes: 10}}, "
    config = read_config(source + "timestamp: {unit: s}}" + REST, "run.yaml")
    ended = go_here(config, tmp_path / "run")
    assert (ended.ending, ended.cycle) == (Ending.STREAM_ENDED, 3)
    first, empty, last = records(tmp_path / "run", "only")
    assert (empty.chunk.events, empty.outcomes, empty.winner) == (0, (), None)
    assert (empty.model, empty.search) == (first.model, first.search)
    assert last.served_logloss is not None


def no_pool(*_: object) -> Pool:
    raise AssertionError("nothing must be started")


def test_mistakes_and_the_end_of_a_stream_start_no_process(tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text(HEAD + rows(0, 1))
    text = f"source: {{kind: files, path: {tmp_path}/events.csv, cut: {{minutes: 10}}, CLICK"
    text = text + "timestamp: {unit: s}}" + REST
    wrong = read_config(text.replace("CLICK", "click: device == D1, "), "run.yaml")
    with pytest.raises(InputError, match="no event is a click: device holds 'd"):
        go_with(no_pool, wrong, tmp_path / "wrong", None, None)
    start = "arms.0.start_from={run: " + str(tmp_path / "other") + "}"
    wrong = read_config(text.replace("CLICK", ""), "run.yaml", (start,))
    with pytest.raises(InputError, match=r"only: cannot start from .*/other: .* not a run folder"):
        go_with(no_pool, wrong, tmp_path / "started", None, None)
    config = read_config(text.replace("CLICK", ""), "run.yaml")
    go_here(config, tmp_path / "run")
    ended = go_with(no_pool, config, tmp_path / "run", None, None)
    assert (ended.ending, ended.cycle) == (Ending.STREAM_ENDED, 1)


def test_a_folder_that_is_filled_is_followed_until_stopped(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    source = f"source: {{kind: follow, path: {events}, poll_s: 0.05, settle_s: 0, "
    config = read_config(source + "timestamp: {unit: s}}" + REST, "run.yaml")
    (events / "a.csv").write_text(HEAD + rows(0, 1))
    stop = threading.Event()
    view = Heard()

    def fill() -> None:
        (events / "b.csv").write_text(HEAD + rows(900, 2))
        while len(view.records) < 2 and not stop.wait(0.05):
            pass
        stop.set()

    threading.Timer(0.2, fill).start()
    ended = go_here(config, tmp_path / "run", view=view, stop=stop)
    assert (ended.ending, ended.cycle) == (Ending.STOPPED, 2)
    (events / "_DONE").touch()
    assert go_here(config, tmp_path / "run").ending is Ending.STREAM_ENDED
    again = tmp_path / "again"
    assert go_here(config, again).ending is Ending.STREAM_ENDED
    assert bits(again, config) == bits(tmp_path / "run", config)


def test_a_stream_that_breaks_loses_no_trained_cycle(tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    (events / "a.csv").write_text(HEAD + rows(0, 1))
    (events / "b.csv").write_text("nothing,of,use\n1,2,3\n")
    source = f"source: {{kind: follow, path: {events}, poll_s: 0.05, settle_s: 0, "
    config = read_config(source + "timestamp: {unit: s}}" + REST, "run.yaml")
    with pytest.raises(InputError, match=r"b\.csv"):
        go_here(config, tmp_path / "run")
    assert [r.cycle for r in records(tmp_path / "run", "only")] == [0]
