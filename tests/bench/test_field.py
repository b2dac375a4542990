"""The field's benchmark: encodings, plan and page; nothing here needs a learner of others."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scripts.bench import field
from scripts.bench.fields import plan
from scripts.bench.fields.events import (
    FieldEvents,
    ffm_lines,
    log_loss_of,
    vw_lines,
)
from scripts.bench.fields.learner import Opening
from scripts.bench.fields.libffm import ShippedFFM
from scripts.bench.fields.measure import FieldRun, MeasureTask, field_chunks, main, measured
from scripts.bench.fields.page import chart, page_text, so_far, verdict, what_happens
from scripts.bench.fields.peers import BY_NAME, PEERS
from scripts.bench.fields.plan import Machine, batches, read_runs
from scripts.bench.fields.programs import ProgramError, program_version, run_program
from scripts.bench.fields.table import FieldRow, FieldTable, read_table, write_table
from scripts.bench.regrets.peers import setup_of
from scripts.bench.regrets.streams import Size, Stream, open_stream

TINY = Size(cycles=3, events=200)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return open_stream("stormy", 101, TINY)


def test_every_value_of_the_table_is_in_the_numbered_events(stream: Stream) -> None:
    fields, chunks = field_chunks(stream)
    assert fields.count == len(stream.spec.features) == 11
    meant: dict[int, tuple[str, str]] = {}
    for chunk in chunks:
        rows = chunk.table.to_pylist()
        assert len(rows) == len(chunk.events)
        for row, (click, slots) in zip(rows, chunk.events.slots(), strict=True):
            assert click == row["click"]
            assert [f for f, _, _ in slots] == sorted(f for f, _, _ in slots)
            for number, feature in enumerate(stream.spec.features):
                own = [(v, w) for f, v, w in slots if f == number]
                assert sum(w for _, w in own) == pytest.approx(1.0, abs=1e-5)
                named = row[feature.name] if feature.multi else [row[feature.name]]
                assert len(own) <= max(1, len(named))
                for value, _ in own:  # one number means one value of one field, everywhere
                    if not feature.multi:
                        text = (feature.name, str(named[0]))
                        assert meant.setdefault(value, text) == text
    assert max(int(chunk.events.value.max()) for chunk in chunks) == fields.values - 1


def test_values_are_numbered_by_first_appearance(stream: Stream) -> None:
    _, chunks = field_chunks(stream)
    seen = -1
    for chunk in chunks:  # libFFM's online form depends on it
        new = chunk.events.value[chunk.events.value > seen]
        assert set(range(seen + 1, int(new.max()) + 1)) == set(new.tolist())
        seen = int(new.max())


def test_learners_that_start_early_see_the_numbers_of_the_whole_stream(stream: Stream) -> None:
    whole, all_chunks = field_chunks(stream)
    part, first = field_chunks(stream, only=1)
    assert part == whole
    assert len(first) == 1
    np.testing.assert_array_equal(first[0].events.value, all_chunks[0].events.value)


def two_events() -> FieldEvents:
    return FieldEvents(
        np.array([1, 0], np.uint8),
        np.array([0, 3, 5]),
        np.array([0, 1, 1, 0, 1], np.int32),
        np.array([4, 7, 8, 5, 7], np.int32),
        np.array([1.0, 0.25, 0.75, 1.0, 1.0], np.float32),
    )


def test_text_formats() -> None:
    events = two_events()
    assert ffm_lines(events) == ["1 0:0:1 1:5:1 2:8:0.25 2:9:0.75", "0 0:0:1 1:6:1 2:8:1"]
    assert vw_lines(events, "ua") == ["1 |u 4 |a 7:0.25 8:0.75", "-1 |u 5 |a 7"]
    assert vw_lines(events, "uu") == ["1 |u 4 7:0.25 8:0.75", "-1 |u 5 7"]


def test_log_loss_is_cut_and_infinite_without_numbers() -> None:
    click = np.array([1, 0], np.uint8)
    assert log_loss_of(np.array([0.5, 0.5]), click) == pytest.approx(math.log(2))
    assert log_loss_of(np.array([0.0, 0.0]), click) == pytest.approx(-math.log(1e-7) / 2)
    assert log_loss_of(np.array([np.nan, 0.5]), click) == math.inf


def test_every_learner_has_the_same_search() -> None:
    searched = [peer for peer in PEERS if peer.step]
    assert {len(peer.settings) for peer in searched} == {12}
    for peer in searched:
        ratios = np.divide(peer.steps[1:], peer.steps[:-1])
        np.testing.assert_allclose(ratios, 2.0)
        assert peer.hot(peer.settings[0])[peer.step] == 10 * peer.steps[0]
        assert peer.at_edge(peer.settings[0])
        assert not peer.at_edge(peer.settings[6])
    assert [peer.name for peer in PEERS if not peer.step] == ["lineages"]


def task(peer: str, settings: list[dict[str, float]], out: Path) -> MeasureTask:
    return MeasureTask(peer, "stormy", 101, TINY.cycles, TINY.events, 0, list(settings), {}, "data",
                       str(out))  # fmt: skip


def test_our_own_learner_serves_what_the_trainer_serves(stream: Stream, tmp_path: Path) -> None:
    run = measured(task("none", [{"eta0": 0.6, "alpha": 1.0}], tmp_path))[0]
    setup = setup_of(stream, "none")
    setting, model = setup.setting({"eta0": 0.6, "alpha": 1.0, "beta": 0.7}), setup.new_model()
    expected = []
    for prepared in stream.chunks:
        start = model.gather(prepared)
        expected.append(model.served(prepared, start))
        model.keep(prepared, start, model.train(prepared, start, setting).tables)
    assert run.served[0] is None
    assert run.served[1:] == pytest.approx(expected[1:], rel=1e-5)
    assert run.trained == sum(run.events)
    assert run.cpu_s > 0


def test_a_diverging_instance_is_counted_and_serves_nothing(tmp_path: Path) -> None:
    run = measured(task("none", [{"eta0": 1e6, "alpha": 0.1}], tmp_path))[0]
    assert run.lost == len(run.events)
    assert run.served == [None] * len(run.events)
    assert run.gain() == 0.0


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_libffm_as_shipped_is_trained_anew_every_fourth_chunk(
    stream: Stream, tmp_path: Path
) -> None:
    """By programs that write down how they were called; the real ones are users' own."""
    programs, work = tmp_path / "programs", tmp_path / "work"
    programs.mkdir()
    work.mkdir()
    log = tmp_path / "calls"
    said = 'case "$*" in *auto-stop*) echo "Auto-stop. Use model at 3th iteration.";; esac'
    train = script(programs / "ffm-train", f'echo "$*" >> {log}\n{said}')
    script(programs / "ffm-predict", 'sed "s/.*/0.25/" $1 > $3')
    fields, chunks = field_chunks(stream)
    setting = {"r": 0.1, "k": 4}
    opening = Opening(stream, fields, setting, 1, {"libffm": str(train)}, str(work))
    learner = ShippedFFM(opening, "libffm")
    steps = [learner.step(chunk) for chunk in (chunks * 2)[:6]]
    assert steps[0].logloss is None
    click = chunks[1].events.click
    assert steps[1].logloss == pytest.approx(log_loss_of(np.full(len(click), 0.25), click))
    calls = [line.split(" ") for line in log.read_text().splitlines()]
    iterations = [call[call.index("-t") + 1] for call in calls]
    assert iterations == ["1", "15", "3", "15", "3"]  # after chunks 0, 1 and 5
    assert all(call[:6] == ["-r", "0.1", "-k", "4", "-s", "1"] for call in calls)
    seen = (work / "all.ffm").read_text().splitlines()
    assert seen == [line for chunk in (chunks * 2)[:6] for line in ffm_lines(chunk.events)]


def test_a_program_that_fails_says_so(tmp_path: Path) -> None:
    bad = script(tmp_path / "bad", "echo all is well\necho no such file >&2\nexit 3")
    with pytest.raises(ProgramError, match=r"bad ended with 3: no such file"):
        run_program([str(bad)], str(tmp_path))
    assert program_version(bad).startswith("sha256 ")


def test_a_programs_memory_is_its_own_peak(tmp_path: Path) -> None:
    good = script(tmp_path / "good", "sleep 0.05")
    assert 0 < run_program([str(good)], str(tmp_path)).peak_bytes < 2e7  # not this process's


def test_results_of_other_settings_sizes_and_versions_have_other_files(tmp_path: Path) -> None:
    on = Machine(tmp_path, tmp_path, {}, 1, print)
    one = on.task("none", field.MARKET, 1, [{"eta0": 1.0}], 0)
    smaller = dataclasses.replace(field.MARKET, size=TINY)
    others = [
        on.task("none", field.MARKET, 1, [{"eta0": 2.0}], 0),
        on.task("none", field.MARKET, 1, [{"eta0": 1.0}], 5),
        on.task("none", smaller, 1, [{"eta0": 1.0}], 0),
        on.task("none", field.MARKET, 2, [{"eta0": 1.0}], 0),
    ]
    assert len({each.out for each in [one, *others]}) == 5
    assert on.task("none", field.MARKET, 1, [{"eta0": 1.0}], 0) == one
    assert [len(few) for few in batches([{}] * 7)] == [3, 3, 1]


def run_with(gain: float, speed: float = 1e5, memory: float = 10.0, lost: int = 0) -> FieldRun:
    """A run of three chunks of 100 events with this gain."""
    served = [None, *[0.1 * (1 - gain)] * 2]
    return FieldRun({"lr": 1.0}, [100] * 3, [0.1] * 3, served, 300 / speed, 300, memory, lost)


def row(peer: str, run: FieldRun, hot: FieldRun | None, stream: str = "stormy") -> FieldRow:
    hots = () if hot is None else (hot,)
    return FieldRow(peer, stream, f"{peer} 1.2", {"lr": 0.5}, peer == "torch", 1, (run,), hots)


def made_up(*rows: FieldRow) -> FieldTable:
    missing = {"fwumious": "--fwumious PATH"}
    streams = dict.fromkeys(one.stream for one in rows)
    return FieldTable(rows, missing, {name: [1] for name in streams}, 12, "a machine", "Quiet.")


def test_the_page_says_first_where_a_peer_is_better() -> None:
    table = made_up(
        row("holdfast", run_with(0.20, 6e5, 20.0), run_with(0.19)),
        row("lightfm", run_with(0.21, 1e6, 9.0), run_with(-40.0)),
        row("river", run_with(0.10, 3e3, 30.0), run_with(0.05)),
        row("lineages", run_with(0.25), None),
    )
    text = page_text(table)
    first = text.splitlines()[0]
    serving = "Better at serving than OFFSET with rule `holdfast` (20.00%): LightFM (21.00%)."
    assert first.startswith(f"**The calibrated market (stormy).** {serving}")
    assert "Better in speed than OFFSET with rule `holdfast` (600,000 events a second): " in first
    assert "Better in memory than OFFSET with rule `holdfast` (20 MB): LightFM (9 MB)." in first
    assert first.endswith(
        "At 10 times the step size OFFSET is ahead (19.00%); "
        "the best peer is River `FMClassifier` (5.00%)."
    )
    assert "**Not run**, as it was not available here: Fwumious Wabbit (`--fwumious PATH`)." in text
    assert "| LightFM | lr 0.5 | 0.07900 | 21.00% | 1,000,000 | 9 MB | -4000.00% | explodes" in text
    assert "(16 instances) | lr 0.5 | 0.07500 | 25.00% | 100,000 | 10 MB |  | finds its own" in text


def test_the_page_says_so_if_no_peer_is_better() -> None:
    table = made_up(
        row("holdfast", run_with(0.20, 6e5, 5.0), run_with(0.19)),
        row("torch", run_with(0.11), run_with(-math.inf), "stormy"),
    )
    said = verdict(table, "stormy")
    assert "No peer is better than OFFSET with rule `holdfast` here. In served gain" in said
    assert "| lr 0.5* |" in page_text(table)
    assert "Nothing to compare" in verdict(made_up(row("torch", run_with(0.1), None)), "stormy")


def test_what_happens_at_ten_times_the_step_size() -> None:
    def said(gain: float, lost: int = 0) -> str:
        return what_happens(row("none", run_with(0.2), run_with(gain, lost=lost)))

    assert said(0.19) == "holds"
    assert said(0.10) == "loses 10.0 points"
    assert said(-0.5) == "loses 70.0 points, worse than a constant"
    assert said(-9.0) == "explodes: 10 times a constant's log-loss"
    assert said(-math.inf) == "predictions are not finite numbers any more"
    assert said(0.19, lost=1) == "holds; training diverged in 1 of 3 chunks"
    assert said(0.0, lost=3) == "diverges in every chunk: never a model to serve"


def test_gain_counts_from_the_chunk_that_it_is_asked_from() -> None:
    run = FieldRun({}, [10, 10, 30], [0.1, 0.1, 0.2], [9.0, 0.1, 0.1], 1.0, 50, 1.0)
    assert run.gain() == pytest.approx(1 - (10 * 0.1 + 30 * 0.1) / (10 * 0.1 + 30 * 0.2))
    assert run.gain(2) == pytest.approx(0.5)
    gains = so_far(run.events, run.constant, run.served)
    assert math.isnan(gains[0])
    assert gains[1:] == pytest.approx([0.0, run.gain()])


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = made_up(
        row("holdfast", run_with(0.25), run_with(-math.inf)),
        row("holdfast", run_with(0.125), None, "movielens-100k"),
    )
    write_table(tmp_path / "results.json", table)
    again = read_table(tmp_path / "results.json")
    assert page_text(again) == page_text(table)
    assert [panel.title for panel in chart(again).panels] == [
        "The calibrated market (stormy)",
        "MovieLens 100K",
    ]


def test_a_part_of_the_benchmark_never_becomes_the_page(tmp_path: Path) -> None:
    for part in (["--quick"], ["--peer", "none"], ["--seeds", "101"]):
        shown = CliRunner().invoke(field.main, [*part, "--readme", "--out", str(tmp_path)])
        assert shown.exit_code == 2
        assert "--readme needs the whole benchmark" in shown.output
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_best_of_the_search_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All phases on a real stream, with tasks run in this process."""

    def here(task: MeasureTask, core: int) -> None:
        path = tmp_path / "task.json"
        path.write_text(json.dumps(dataclasses.asdict(task)))
        main(str(path))

    monkeypatch.setattr(plan, "_run_process", here)
    on = Machine(tmp_path, tmp_path, {}, 1, lambda line: None)
    where = dataclasses.replace(field.MARKET, size=TINY, seeds=(102, 103))
    peers = [BY_NAME[name] for name in ("none", "lineages", "libffm")]
    table = field.measured(on, peers, [where], steps=6)
    row, lines = table.rows
    searches = [on.task("none", where, 101, few, 0) for few in batches(BY_NAME["none"].settings)]
    tried = [run for search in searches for run in read_runs(search)]
    assert len(tried) == table.tried == 12
    assert row.setting == max(tried, key=lambda run: run.gain()).setting
    assert [run.setting for run in row.runs] == [row.setting] * 2
    assert [run.setting["eta0"] for run in row.hot] == [10 * float(row.setting["eta0"])] * 2
    assert (lines.setting, lines.hot, len(lines.runs)) == ({}, (), 2)
    assert table.missing == {"libffm": "--libffm PATH"}
    assert table.seeds == {"stormy": [102, 103]}
    assert "OFFSET, rule `none`" in page_text(table)


@pytest.mark.slow
def test_a_task_that_fails_is_one_line(tmp_path: Path) -> None:
    broken = script(tmp_path / "ffm-train", "echo out of order >&2; exit 2")
    arguments = ["--quick", "--peer", "libffm", "--libffm", str(broken), "--seeds", "101"]
    out = ["--out", str(tmp_path / "out"), "--processes", "1"]
    shown = CliRunner().invoke(field.main, [*arguments, *out])
    assert shown.exit_code == 1
    assert "out of order; the same command resumes" in shown.output
    assert "Traceback" not in shown.output
