import io
import json
import math
import re
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console

from orchestrator.watch.console import (
    SPIN_S,
    JsonView,
    LineView,
    TableView,
    bar,
    duration,
    line,
    open_view,
    progress,
    summary,
)
from support.records import record
from trainer.outcome import Status


def test_a_line_says_what_came_of_a_cycle() -> None:
    assert line(record()) == (
        "a  retained 1/2  logloss 0.20000  eta0=1 alpha=3 beta=0.5 lam=0.001  2 rows set aside"
    )
    assert line(record(winner=None, caution=2)) == (
        "a  retained 1/2  no instance retained, the champion stays  drawn cautiously (level 2)"
        "  2 rows set aside"
    )


def test_a_summary_is_plain_json() -> None:
    got = summary(record(served_logloss=math.nan))
    assert json.loads(json.dumps(got, allow_nan=False)) == got
    assert (got["retained_fraction"], got["logloss"], got["served_logloss"]) == (0.5, 0.2, None)
    assert got["setting"]["lam"] == 0.001


def test_without_a_terminal_there_are_plain_lines() -> None:
    stream = io.StringIO()
    view = open_view(stream, as_json=False, cycles=10)
    assert isinstance(view, LineView)
    with view:
        view.say("hello")
        view.show([record("a"), record("b")])
    assert [text.split("  ")[0] for text in stream.getvalue().splitlines()] == [
        "hello",
        "cycle 7 (8 of 10)",
        "cycle 7 (8 of 10)",
    ]


def test_failures_are_shown_with_their_reason() -> None:
    made = record()
    reasons = ["line 4:\n  no such column", "line 4:\n  no such column", "killed"]
    failed = [replace(made.outcomes[0], status=Status.FAILED, reason=one) for one in reasons]
    shown = record(outcomes=(*made.outcomes, *failed))
    sentence = "a: 2 instances failed: line 4: no such column (and 1 more reason)"
    stream = io.StringIO()
    LineView(stream, 10).show([shown])
    assert stream.getvalue().splitlines()[1] == f"  {sentence}"
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with TableView(console, cycles=10) as view:
        view.show([shown])
    assert sentence in console.file.getvalue()  # type: ignore[attr-defined]


def test_json_lines_are_one_object_each() -> None:
    stream = io.StringIO()
    view = open_view(stream, as_json=True, cycles=None)
    assert isinstance(view, JsonView)
    view.say("hello")
    view.show([record()])
    said, shown = map(json.loads, stream.getvalue().splitlines())
    assert said == {"message": "hello"}
    assert (shown["arm"], shown["cycle"]) == ("a", 7)
    assert shown["set_aside"] == {"label is null": 2}


def test_on_a_terminal_there_is_a_live_table() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with TableView(console, cycles=10) as view:
        view.say("[a message, not markup]")
        view.show([])
        view.show([record("a"), record("b", winner=None, served_logloss=None, caution=1)])
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for part in (
        "[a message, not markup]",
        "cycle 7 (8 of 10) · 100 events · 149 trained/s · 3 s left",
        f"{bar(0.5)} 1/2",
        "0.20000",
        "eta0=1 alpha=3",
        "no instance retained, the champion stays (caution 1)",
    ):
        assert part in shown


def test_without_a_terminal_every_step_before_the_first_cycle_is_a_line_with_its_time() -> None:
    stream = io.StringIO()
    with open_view(stream, as_json=False, cycles=10) as view:
        view.step("starting Ray")
        view.step("compiling")
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r" +\d+\.\d s  starting Ray", first)
    assert second.endswith(" s  compiling")
    stream = io.StringIO()
    with open_view(stream, as_json=True, cycles=10) as view:
        view.step("starting Ray")
    assert stream.getvalue() == ""


def test_on_a_terminal_a_spinner_turns_until_the_table() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with TableView(console, cycles=10) as view:
        view.step("starting Ray")
        end = time.monotonic() + 30
        while "0 s  starting Ray" not in console.file.getvalue():  # type: ignore[attr-defined]
            assert time.monotonic() < end
            time.sleep(0.05)
        view.show([record("a")])
        time.sleep(5 * SPIN_S)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert shown.rindex("starting Ray") < shown.rindex("cycle 7")
    with TableView(console, cycles=10) as view:
        view.step("starting Ray")
    assert not any(thread.name == "spinner" for thread in alive(60))


def alive(seconds: float) -> list[threading.Thread]:
    """The spinners that are left after some time."""
    end = time.monotonic() + seconds
    while (found := [t for t in threading.enumerate() if t.name == "spinner"]) and (
        time.monotonic() < end
    ):
        time.sleep(0.05)
    return found


def test_progress_without_an_end() -> None:
    assert progress(4, None) == "cycle 4"
    assert progress(4, 3) == "cycle 4", "it was resumed with more cycles"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (89, "89 s"), (720, "12 min"), (12600, "3.5 h")]
)
def test_durations_are_rough(seconds: float, text: str) -> None:
    assert duration(seconds) == text
