"""What people see of lines: on the console, in the log and at the head of a report."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.journal.journal import commit
from orchestrator.journal.record import CycleRecord, LinesRecord, ModelOrigin
from orchestrator.journal.run_folder import prepare
from orchestrator.report.frames import lines_frame
from orchestrator.report.head import line_summaries, run_line
from orchestrator.report.load import Run, load_runs
from orchestrator.report.study import Study
from orchestrator.search.lineages import Lineages, LineState, Replacement
from orchestrator.storage.open import open_store
from orchestrator.watch.console import LineView, TableView, line, summary
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


def with_mean(one: CycleRecord, members: tuple[int, ...]) -> CycleRecord:
    own = one.lineages
    assert own is not None
    biases = ((0.0, 0.0),) * len(members)
    own = replace(own, state=replace(own.state, members=members), biases=biases)
    return one.model_copy(update={"lineages": own})


STORY = (
    lines(3, 0, "it has the lowest discounted served log-loss", ()),
    lines(4, 1, GAINED, ()),
    lines(5, 1, "it has the lowest discounted served log-loss", (COPIED,)),
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
    assert shown[0].endswith("line 0: eta0=1 alpha=3 beta=0.5 lam=0.001  2 rows set aside")
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
    assert rows[0][3:] == ("the champion", "the start")
    scores = [float(row[2]) for row in rows[1:]]
    assert scores == sorted(scores)  # the champion first, then by the column that is shown
    assert rows[2][3] == "0.110000 ± 0.010000 a chunk (2)"


def test_an_arm_is_summed_up_without_the_record_in_which_its_champion_changed() -> None:
    text = summary_of([STORY[0], STORY[2]])
    assert text is not None
    assert "line 1 of 3, since cycle 5 (it has the lowest discounted served log-loss), with" in text


def test_lines_that_were_lost_are_counted_apart() -> None:
    lost = Replacement(0, 1, "it diverged")
    text = summary_of([lines(3, 1, "the first", (lost, COPIED))])
    assert text is not None
    assert text.endswith("lines replaced: 2 (1 lost, 1 served worse)")


def test_the_members_of_a_served_mean_are_shown() -> None:
    last = with_mean(STORY[2], (2, 1))
    text = summary_of([*STORY[:2], last])
    assert text is not None
    assert "lam=0.001; the mean of lines 2, 1 is served; lines replaced: " in text
    assert last.lineages is not None
    behind = {row[0]: row[3] for row in table_of(last.lineages)}
    assert behind["1"] == "the champion, in the served mean"
    assert [n for n in "012" if behind[n].endswith(", in the served mean")] == ["1", "2"]
    frame = lines_frame([Run("r", "r", small(), {"entropic": (STORY[1], last)}, ())])
    assert list(frame["member"]) == [False] * 3 + [False, True, True]


def test_a_champion_that_was_late_has_skipped_the_chunk() -> None:
    late = (outcome(0), outcome(1, "late"), outcome(2))
    text = line(STORY[2].model_copy(update={"outcomes": late, "winner": None}))
    said = "a  retained 2/3  late 1  line 1, the champion, was late and skipped this chunk"
    assert text == f"{said}  2 rows set aside"
    lost = tuple(outcome(i, "diverged") for i in range(3))
    text = line(STORY[2].model_copy(update={"outcomes": lost, "winner": None}))
    assert text == "a  retained 0/3  no instance retained, the champion stays  2 rows set aside"


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


def test_a_run_whose_lines_had_no_events_yet_is_not_called_one_without_lines(
    tmp_path: Path,
) -> None:
    store = open_store(str(tmp_path))
    prepare(store, small("search.select=lineages", "arms=[{name: a, rule: l2}]"))
    commit(store, [record(cycle=0, outcomes=(), winner=None, model=())])
    with pytest.raises(InputError, match="--lines: no record that can be read has lines yet"):
        CliRunner().invoke(holdfast, ["log", str(tmp_path), "--lines"], catch_exceptions=False)
