"""A folder that is being filled: the next file is the next chunk, for good."""

import os
import threading
import time
from pathlib import Path

import fsspec
import pytest

from divergence.errors import InputError
from orchestrator.sources.files.readers import parquet_process
from orchestrator.sources.files.readers.parquet_process import CHILD
from support.event_files import ads, all_events, csv_text, follow, rows, write


def arrive(folder: Path, name: str, first: int) -> None:
    """A file of three events turns up whole, as a production job would write it."""
    write(folder / f"_{name}", rows(first + 3)[first:])
    (folder / f"_{name}").rename(folder / name)


def set_now() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def test_files_are_chunks_in_order_of_name(tmp_path: Path) -> None:
    arrive(tmp_path, "b.csv", 3)
    arrive(tmp_path, "a.csv", 0)
    for name in ("_c.csv", ".d.csv", "e.csv.tmp", "f.part"):
        (tmp_path / name).write_text("not data")
    (tmp_path / "_DONE").touch()
    chunks = all_events(follow(tmp_path))
    assert [ads(chunk) for chunk in chunks] == [["ad0", "ad1", "ad2"], ["ad3", "ad4", "ad5"]]
    assert chunks[0].origin == f"{tmp_path}/a.csv"


def test_it_waits_for_the_next_file_and_ends_at_the_marker(tmp_path: Path) -> None:
    def produce() -> None:
        for number in range(3):
            time.sleep(0.05)
            arrive(tmp_path, f"{number}.csv", 3 * number)
        (tmp_path / "_END").touch()

    writer = threading.Thread(target=produce)
    writer.start()
    chunks = all_events(follow(tmp_path, end_marker="_END"))
    writer.join()
    assert [ad for chunk in chunks for ad in ads(chunk)] == [f"ad{i}" for i in range(9)]


def test_stop_ends_a_wait_at_once(tmp_path: Path) -> None:
    stop = threading.Event()
    stream = follow(tmp_path, stop=stop, poll_s=600)
    threading.Timer(0.1, stop.set).start()
    begin = time.monotonic()
    assert stream.events(0) is None
    assert time.monotonic() - begin < 30


def test_with_stop_set_it_takes_what_is_there(tmp_path: Path) -> None:
    arrive(tmp_path, "a.csv", 0)
    assert len(all_events(follow(tmp_path, stop=set_now(), poll_s=600))) == 1


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    arrive(tmp_path, "a.csv", 0)
    arrive(tmp_path, "b.csv", 3)
    fresh = time.time() + 3600
    os.utime(tmp_path / "a.csv", (fresh, fresh))
    assert follow(tmp_path, stop=set_now(), settle_s=1).events(0) is None
    os.utime(tmp_path / "a.csv", (0, 0))
    assert ads(follow(tmp_path, stop=set_now(), settle_s=1).events(0)) == ["ad0", "ad1", "ad2"]


def test_a_late_file_is_set_aside_and_never_inserted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, place = tmp_path / "in", str(tmp_path / "run")
    folder.mkdir()
    arrive(folder, "b.csv", 0)
    stream = follow(folder, place, set_now())
    first = stream.events(0)
    arrive(folder, "a.csv", 3)
    arrive(folder, "c.csv", 6)
    second = stream.events(1)
    assert (ads(first), ads(second)) == (["ad0", "ad1", "ad2"], ["ad6", "ad7", "ad8"])
    assert second.set_aside == {"late file": 3}
    assert caplog.messages == [
        f"{folder}/a.csv arrived after b.csv was read: its 3 rows are set aside"
    ]
    assert stream.events(2) is None

    resumed = follow(folder, place, set_now())
    again = [resumed.events(1), resumed.events(0)]
    assert [e.table for e in again] == [second.table, first.table]
    assert again[0].set_aside == second.set_aside
    arrive(folder, "d.csv", 9)
    assert resumed.events(2).set_aside == {}


def test_a_resumed_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    folder, place = tmp_path / "in", str(tmp_path / "run")
    folder.mkdir()
    for number in range(4):
        arrive(folder, f"{number}.csv", 3 * number)
    whole = all_events(follow(folder, stop=set_now()))
    follow(folder, place, set_now()).events(0)
    resumed = follow(folder, place, set_now())
    assert [resumed.events(cycle).table for cycle in (2, 1, 3, 0)] == [
        whole[cycle].table for cycle in (2, 1, 3, 0)
    ]


def test_a_taken_file_must_stay(tmp_path: Path) -> None:
    folder, place = tmp_path / "in", str(tmp_path / "run")
    folder.mkdir()
    arrive(folder, "a.csv", 0)
    follow(folder, place, set_now()).events(0)
    (folder / "a.csv").write_text(csv_text(rows(5)))
    with pytest.raises(InputError) as error:
        follow(folder, place, set_now()).events(0)
    assert str(error.value) == (
        f"{folder}/a.csv, the file of cycle 0, has 123 bytes, not 83: "
        "a file must not change after it was read"
    )
    (folder / "a.csv").unlink()
    with pytest.raises(InputError, match=r"a\.csv, the file of cycle 0, was deleted"):
        follow(folder, place, set_now()).events(0)


def test_a_file_that_fails_the_checks_may_be_mended(tmp_path: Path) -> None:
    folder, place = tmp_path / "in", str(tmp_path / "run")
    folder.mkdir()
    (folder / "a.csv").write_text(csv_text(rows(3)) + "broken\n")
    with pytest.raises(InputError, match="1 of 4 rows are broken"):
        follow(folder, place, set_now()).events(0)
    (folder / "a.csv").write_text(csv_text(rows(3)))
    assert len(follow(folder, place, set_now()).events(0).table) == 3


def test_events_out_of_order_are_sorted_in_their_chunk(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", rows(6)[:2:-1])
    write(tmp_path / "b.jsonl", rows(3))
    (tmp_path / "_DONE").touch()
    chunks = all_events(follow(tmp_path))
    assert [ads(chunk) for chunk in chunks] == [["ad3", "ad4", "ad5"], ["ad0", "ad1", "ad2"]]


def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert follow(tmp_path / "later", stop=set_now()).events(0) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cycle-000000.json: Invalid JSON"),
        ("[" * 100_000, "cycle-000000.json: Invalid JSON: recursion limit"),
        ('{"size": 1}', "cycle-000000.json.file: Field required"),
        ('{"file": "a.csv", "size": 1e999}', "cycle-000000.json.size: "),
        ('{"file": "a.csv", "size": -1}', "cycle-000000.json.size: Input should be greater"),
        ('{"file": "a.csv", "size": 1, "late": {"b": "x"}}', "cycle-000000.json.late.b: "),
        (" " * (1 << 24) + "{}", "at most 16777216 bytes"),
    ],
    ids=range(7),
)
def test_a_damaged_record_is_one_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "run" / "followed").mkdir(parents=True)
    (tmp_path / "run" / "followed" / "cycle-000000.json").write_text(text)
    with pytest.raises(InputError, match="followed cannot be read") as caught:
        follow(tmp_path, str(tmp_path / "run"))
    assert reason in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_missing_record_does_not_shift_the_cycles(tmp_path: Path) -> None:
    (tmp_path / "run" / "followed").mkdir(parents=True)
    (tmp_path / "run" / "followed" / "cycle-000001.json").write_text('{"file": "a", "size": 1}')
    with pytest.raises(InputError, match=r"cycle-000001\.json follows cycle -1"):
        follow(tmp_path, str(tmp_path / "run"))


@pytest.mark.parametrize("link", ["followed", "followed/cycle-000000.json", "quarantine"])
def test_links_in_a_run_folder_lead_nowhere(tmp_path: Path, link: str) -> None:
    folder, run, outside = (tmp_path / name for name in ("in", "run", "outside"))
    for each in (folder, outside, (run / link).parent):
        each.mkdir(exist_ok=True, parents=True)
    (outside / "mine").write_text("mine")
    (run / link).symlink_to(outside / "mine" if "." in link else outside)
    (folder / "a.csv").write_text(csv_text(rows(300)) + "broken\n")
    with pytest.raises(InputError, match="must be a"):
        follow(folder, str(run), set_now()).events(0)
    assert [path.name for path in outside.iterdir()] == ["mine"]
    assert (outside / "mine").read_text() == "mine"


@pytest.mark.slow
def test_a_parquet_file_with_a_forged_number_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CHILD.stop()
    monkeypatch.setattr(parquet_process, "CPU_S", 1)
    write(tmp_path / "a.parquet", rows(5))
    data = (tmp_path / "a.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    tail = data[footer:-8]
    # num_rows of the file and of its row group: field 3, an i64, of 5 (zigzag: 10)
    forged = tail.replace(b"\x16\x0a", b"\x16" + varint(2 * 10**13))
    size = len(forged).to_bytes(4, "little")
    (tmp_path / "a.parquet").write_bytes(data[:footer] + forged + size + b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet .*(SIGXCPU|damaged|cannot be read)"):
        follow(tmp_path, stop=set_now()).events(0)
    CHILD.stop()


def test_parquet_in_memory_is_refused() -> None:
    fsspec.filesystem("memory").pipe_file("/events/a.parquet", b"")
    with pytest.raises(InputError, match="Parquet is read in a process of its own"):
        follow("memory://events", stop=set_now()).events(0)
    fsspec.filesystem("memory").rm("/events", recursive=True)


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])
