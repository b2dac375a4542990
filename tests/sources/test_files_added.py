"""Files that are added, grow or change between two starts of a run: no row is lost in silence."""

from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.sources.files.source import FileSource
from support.event_files import ads, csv_text, rows, source, write

EVENTS = rows(40)
MINUTES = {"minutes": 10}


def opened(days: Path, run: Path, cycle: int, **more: object) -> FileSource:
    """The source as a run opens it that goes on at a cycle."""
    stream = source(days, place=str(run), **more)
    assert isinstance(stream, FileSource)
    stream.resume(cycle, lambda events: None)
    return stream


def train(days: Path, run: Path, start: int, **more: object) -> list[list[str]]:
    """The ads of all cycles from `start` to the end."""
    stream, found = opened(days, run, start, **more), []
    while (events := stream.events(start + len(found))) is not None:
        found.append(ads(events))
    return found


def joined(cycles: list[list[str]]) -> list[str]:
    return [ad for cycle in cycles for ad in cycle]


def names(first: int, stop: int) -> list[str]:
    return [f"ad{i}" for i in range(first, stop)]


@pytest.fixture
def days(tmp_path: Path) -> Path:
    (tmp_path / "days").mkdir()
    write(tmp_path / "days" / "1.csv", EVENTS[:25])
    return tmp_path / "days"


@pytest.mark.parametrize("cut", [MINUTES, {"events": 10}])
def test_after_an_added_file_the_rest_of_a_half_full_cycle_is_trained(
    days: Path, tmp_path: Path, cut: dict[str, int]
) -> None:
    run = tmp_path / "run"
    assert train(days, run, 0, cut=cut) == [names(0, 10), names(10, 20), names(20, 25)]
    write(days / "2.csv", EVENTS[25:])
    more = train(days, run, 3, cut=cut)
    assert joined(more) == names(25, 40)
    if cut is MINUTES:  # cycles keep to the same clock
        assert more == [names(25, 30), names(30, 40)]
    again = source(days, place=str(run), cut=cut)  # a replay
    assert [ads(again.events(cycle)) for cycle in (2, 3, 0)] == [
        names(20, 25),
        more[0],
        names(0, 10),
    ]


@pytest.mark.parametrize("cut", [MINUTES, {"events": 10}])
def test_what_is_added_while_a_run_is_stopped_in_the_middle(
    days: Path, tmp_path: Path, cut: dict[str, int]
) -> None:
    run = tmp_path / "run"
    first = opened(days, run, 0, cut=cut).events(0)
    write(days / "0.csv", EVENTS[25:])  # its name is first, its events are last
    assert ads(first) + joined(train(days, run, 1, cut=cut)) == names(0, 40)
    if cut is MINUTES:  # nothing was half full
        assert len(train(days, run, 1, cut=cut)) == 3


def test_a_text_file_that_grows(days: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert len(train(days, run, 0)) == 3
    with (days / "1.csv").open("a") as file:
        file.write(csv_text(EVENTS[25:]).partition("\n")[2])
    stream = opened(days, run, 3)
    assert [ads(stream.events(cycle)) for cycle in (3, 4)] == [names(25, 35), names(35, 40)]
    assert ads(source(days, place=str(run)).events(2)) == names(20, 25)


def test_rows_older_than_what_was_trained_are_counted_and_said(
    days: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    assert len(train(days, run, 0, cut=MINUTES)) == 3
    write(days / "late.csv", EVENTS[5:9])
    assert train(days, run, 3, cut=MINUTES) == []
    assert "4 rows of files that were added" in caplog.messages[-1]
    write(days / "2.csv", EVENTS[25:])
    events = opened(days, run, 3, cut=MINUTES).events(3)
    assert ads(events) == names(25, 30)
    said = f"4 rows of files that were added ({days}/late.csv: 4) are older than what was trained"
    assert caplog.messages[-1] == f"{said}: skipped"  # and does not name 2.csv
    assert events is not None
    assert events.set_aside == {"late row": 4}


def test_no_empty_cycle_where_the_last_one_was_full(days: Path, tmp_path: Path) -> None:
    write(days / "1.csv", EVENTS[:20])
    assert len(train(days, tmp_path / "run", 0, cut=MINUTES)) == 2
    write(days / "2.csv", EVENTS[20:])
    assert train(days, tmp_path / "run", 2, cut=MINUTES) == [names(20, 30), names(30, 40)]


def test_a_trained_file_may_be_deleted_but_not_replaced(days: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(days, run, 0)
    write(days / "1.csv", [{**row, "click": 1 - row["click"]} for row in EVENTS[:25]])
    with pytest.raises(InputError, match=r"1\.csv was replaced after it was trained"):
        opened(days, run, 3)
    (days / "1.csv").unlink()
    write(days / "2.csv", EVENTS[25:])
    assert joined(train(days, run, 3)) == names(25, 40)


def test_a_file_that_is_not_trained_yet_may_be_repaired(days: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = opened(days, run, 0).events(0)
    write(days / "1.csv", [*EVENTS[:12], *EVENTS[20:25]])
    stream, before = source(days, place=str(run)), []
    assert isinstance(stream, FileSource)
    stream.resume(1, before.append)
    assert [ads(events) for events in before] == [ads(first)]
    assert ads(stream.events(1)) == ["ad10", "ad11", *names(20, 25)]
    assert train(days, run, 2) == []
