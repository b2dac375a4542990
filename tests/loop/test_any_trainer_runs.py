"""Runs of another trainer than OFFSET, in this process: resume, replay, lines, report, score."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from orchestrator.cli import main
from orchestrator.loop import lines_arm
from orchestrator.offline.replay import replay
from orchestrator.storage.open import open_store
from support.runs import bits, go_here, records
from support.trainers import EXAMPLES, config_of, own_trainers
from trainer.outcome import Status

LINES = "search.select={kind: lineages, replace_every: [1, 2]}"
Ask = Callable[..., tuple[int, str]]
CODE = ("--code", str(EXAMPLES))


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lines_arm, "SNAPSHOT_CYCLES", 2)
    with own_trainers():
        yield


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    def call(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["holdfast", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out + err

    return call


@pytest.mark.parametrize("more", [(), (LINES,)], ids=["champion", "lineages"])
def test_a_resumed_run_is_the_same_to_the_bit_and_every_instance_is_replayed(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    config = config_of("own", *more)
    go_here(config, tmp_path / "once")
    for cycles in range(1, 6):
        go_here(config_of("own", *more, f"cycles={cycles}"), tmp_path / "resumed")
    assert bits(tmp_path / "once", config) == bits(tmp_path / "resumed", config)
    store = open_store(str(tmp_path / "once"))
    found = [replay(store, None, cycle, i) for cycle in (0, 2, 4) for i in range(4)]
    assert [one.same for one in found] == [True] * 12
    statuses = {o.status for r in records(tmp_path / "once", "only") for o in r.outcomes}
    assert statuses == {Status.RETAINED, Status.DIVERGED}
    served = [r.served_logloss for r in records(tmp_path / "once", "only")]
    assert served[0] is None
    assert all(one is not None and one < 1 for one in served[1:])


def test_an_arm_starts_from_another(tmp_path: Path) -> None:
    arms = "arms=[{name: a}, {name: b, start_from: {arm: a, cycle: 2}}]"
    go_here(config_of("own", arms, "retention={keep_last: 1}"), tmp_path)
    a, b = records(tmp_path, "a")[2], records(tmp_path, "b")[0]
    assert (b.cycle, a.served_logloss) == (2, b.served_logloss)
    assert replay(open_store(str(tmp_path)), "b", 2, 0).same


def test_caution_shortens_the_first_parameter(tmp_path: Path) -> None:
    hot = "trainer.ranges.step={low: 1000, high: 1001}"
    found = go_here(config_of("own", hot, "cycles=3"), tmp_path) and records(tmp_path, "only")
    assert [record.caution for record in found] == [0, 1, 2]
    assert {o.setting.value("step") for r in found for o in r.outcomes[1:]} >= {1000.0}


@pytest.mark.slow
def test_log_report_replay_and_score_from_the_command_line(ask: Ask, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    go_here(config_of("own", LINES), run)
    assert ask("replay", run, "--cycle", "3", "--instance", "1", *CODE)[0] == 0
    code, text = ask("replay", run, "--cycle", "3", "--instance", "1", "--json", *CODE)
    assert (code, json.loads(text)["same"]) == (0, True)
    code, text = ask("report", run)  # nothing of the user's runs here
    assert code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "setting.step" in page
    assert ask("log", run, "--lines")[0] == 0
    events = tmp_path / "events.parquet"
    table = {"age": ["18-24", None], "gender": ["f", "m"], "device": ["a", "b"],
             "campaign": ["c", "d"], "category": ["e", "f"]}  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(table), events)
    code, text = ask("score", run, str(events), *CODE)
    assert code == 0
    chances = [float(line.split(",")[-1]) for line in text.splitlines()[1:3]]
    assert len(chances) == 2
    assert all(0 < chance < 1 for chance in chances)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("replay", "RUN", "--cycle", "0", "--instance", "0", "--story", *CODE), "replay --story"),
        (("publish", "RUN", "PLACE"), "publish"),
        (("export", "RUN", "--as", "parquet", "--out", "PLACE"), "serving and exporting vectors"),
        (("serve", "RUN"), "serving and exporting vectors"),
    ],
)
def test_what_only_offset_can_do_says_so_in_one_line(
    ask: Ask, tmp_path: Path, command: tuple[str, ...], text: str
) -> None:
    go_here(config_of("own", "cycles=1"), tmp_path / "run")
    names = {"RUN": str(tmp_path / "run"), "PLACE": str(tmp_path / "place")}
    code, output = ask(*(names.get(part, part) for part in command))
    assert code == 2
    assert output.splitlines()[-1].endswith(
        f"{text} works with the trainer offset only, but this is python"
    )
