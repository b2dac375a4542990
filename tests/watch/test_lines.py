"""What people see of lines: on the console, in the log and at the head of a report."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.journal.record import CycleRecord, LinesRecord, ModelOrigin
from orchestrator.report.head import line_summaries, run_line
from orchestrator.report.load import load_runs
from orchestrator.report.study import Study
from orchestrator.search.lineages import Lineages, LineState, Replacement
from orchestrator.watch.console import LineView, TableView, summary
from orchestrator.watch.lines import summary_of, table_of
from support.configs import small
from support.records import SETTING, outcome, record
from support.runs import go_here

GAINED = "its served log-loss is below that of line 0 by 0.01 ± 0.001 a chunk over 4 chunks"
COPIED = Replacement(2, 1, "worse than line 1 by 0.02 ± 0.001 a chunk over 8 chunks")


def lines(cycle: int, champion: int, why: str, replaced: tuple[Replacement, ...]) -> CycleRecord:
    states = [LineState(SETTING, -0.1 * i, (-0.1 * i, -0.12 * i)) for i in range(3)]
    if replaced:
        states[2] = LineState(SETTING, -0.1, parent=1, born=cycle)
    state = Lineages(tuple(states), champion)
    own = LinesRecord(cycle, state, (ModelOrigin(None, -1),) * 3, (None,) * 3, replaced, why)
    return record(
        cycle=cycle, winner=champion, outcomes=tuple(map(outcome, range(3))), lineages=own
    )


STORY = (
    lines(3, 0, "it has the lowest served log-loss", ()),
    lines(4, 1, GAINED, ()),
    lines(5, 1, "it has the lowest served log-loss", (COPIED,)),
)
NEWS = (
    f"a: line 1 is the champion now: {GAINED}",
    "a: line 2 is now a copy of line 1 with eta0=1 alpha=3 beta=0.5 lam=0.001: worse than line 1 "
    "by 0.02 ± 0.001 a chunk over 8 chunks",
)


def test_the_lines_of_a_console_name_the_champion_and_say_what_changes() -> None:
    stream = io.StringIO()
    with LineView(stream, None) as view:
        for one in STORY:
            view.show([one])
    shown = stream.getvalue().splitlines()
    assert shown[0].endswith("line 0: eta0=1 alpha=3 beta=0.5 lam=0.001")
    assert [text for text in shown if text.startswith("  ")] == [f"  {text}" for text in NEWS]
    assert summary(STORY[2])["champion_line"] == 1
    assert summary(STORY[2])["replaced"][0]["parent"] == 1
    assert "champion_line" not in summary(record())


def test_the_live_table_has_the_newest_change_below_it() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    with TableView(console, None) as view:
        for one in STORY:
            view.show([one])
    shown: str = console.file.getvalue()  # type: ignore[attr-defined]
    last = " ".join(shown.rpartition("cycle 5")[2].split())
    assert NEWS[1] in last
    assert NEWS[0] not in last


def test_an_arm_is_summed_up_from_its_records() -> None:
    text = summary_of(STORY)
    assert text == (
        f"a: the champion is line 1 of 3, since cycle 4 ({GAINED}), with eta0=1 alpha=3 beta=0.5 "
        "lam=0.001; lines replaced: 1 (0 lost, 1 served worse)"
    )
    assert summary_of([record()]) is None
    rows = table_of(STORY[1].lineages)  # type: ignore[arg-type]
    assert [row[0] for row in rows] == ["1", "2", "0"]
    assert rows[0][2:] == ("the champion", "the start")
    assert rows[2][2] == "0.110000 ± 0.010000 a chunk (2)"


def test_the_log_and_the_head_of_the_report_of_a_run_with_lines(tmp_path: Path) -> None:
    config = small("search.select=lineages", "arms=[{name: only, rule: l2}]")
    go_here(config, tmp_path)
    done = CliRunner().invoke(holdfast, ["log", str(tmp_path), "--lines"])
    study = Study(load_runs([str(tmp_path)]).runs)
    (text,) = line_summaries(study)
    assert done.output.splitlines()[0] == text
    assert text.startswith("only: the champion is line ")
    assert len(done.output.splitlines()) == 2 + config.search.instances
    assert "1 arm of 6 lines" in run_line(study.runs[0])
    done = CliRunner().invoke(holdfast, ["log", str(tmp_path), "--lines", "--json"])
    assert len(json.loads(done.output)["lines"]) == config.search.instances


def test_a_run_without_lines_has_none_to_show(tmp_path: Path) -> None:
    go_here(small("cycles=1", "arms=[{name: only, rule: l2}]"), tmp_path)
    with pytest.raises(InputError, match="--lines: the run has no lines"):
        CliRunner().invoke(holdfast, ["log", str(tmp_path), "--lines"], catch_exceptions=False)
