from pathlib import Path

import pandas as pd
import pytest

from divergence.errors import InputError
from orchestrator.journal.journal import record_path
from orchestrator.journal.record import CycleRecord, count_outcomes
from orchestrator.report.frames import CYCLES, INSTANCES, cycles_frame, instances_frame
from orchestrator.report.load import Run, load_run, load_runs, short_names
from orchestrator.storage.open import open_store
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run


def test_frames_hold_what_the_records_say(day_run: Run) -> None:
    cycles, instances = cycles_frame([day_run]), instances_frame([day_run])
    assert len(cycles) == 2 * 96
    assert len(instances) == 2 * 96 * 16
    record = day_run.records["production"][40]
    row = cycles[(cycles["arm"] == "production") & (cycles["cycle"] == 40)].iloc[0]
    count = count_outcomes(record)
    assert (row["launched"], row["diverged"]) == (count.launched, count.diverged)
    assert row["retained_fraction"] == count.retained_fraction
    assert row["served_logloss"] == record.served_logloss
    assert record.winner is not None
    assert row["eta0"] == record.outcomes[record.winner].setting.eta0
    decided = count.retained + count.diverged
    assert row["useful_fraction"] == count.useful / decided
    lost = instances[(instances["cycle"] == 40) & (instances["status"] == "diverged")]
    assert len(lost) == sum(count_outcomes(r[40]).diverged for r in day_run.records.values())
    assert lost["diverged_feature"].notna().all()
    won = instances[instances["won"]]
    assert len(won) == cycles["winner"].notna().sum()


def test_types_do_not_depend_on_what_happened(day_run: Run) -> None:
    for make, columns in ((cycles_frame, CYCLES), (instances_frame, INSTANCES)):
        empty, full = make([]), make([day_run])
        assert tuple(empty.columns) == columns
        pd.testing.assert_series_equal(empty.dtypes, full.dtypes)


def test_a_damaged_record_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    given = simulated()
    write_run(open_store(str(tmp_path)), given, made_up_records(given, 5))
    torn = tmp_path / record_path("entropic", 3)
    torn.write_bytes(torn.read_bytes()[:-20])
    run = load_run(open_store(str(tmp_path)), "x")
    assert len(run.records["production"]) == 5
    assert [r.cycle for r in run.records["entropic"]] == [0, 1, 2, 4]
    assert run.faults == ("journal/entropic/cycle-000003.json: corrupt: not a complete record",)


def test_a_record_of_a_newer_holdfast_is_named_too(tmp_path: Path) -> None:
    given = simulated()
    made = made_up_records(given, 2)
    newer = CycleRecord.model_construct(**{**dict(made[-1]), "schema_version": 2})
    write_run(open_store(str(tmp_path)), given, [*made[:-1], newer])
    run = load_run(open_store(str(tmp_path)), "x")
    assert len(run.faults) == 1
    assert "schema_version must be 1, but is 2" in run.faults[0]
    assert len(run.records["entropic"]) == 1


def test_a_run_without_cycles_says_so(tmp_path: Path) -> None:
    write_run(open_store(str(tmp_path)), simulated(), [])
    run = load_run(open_store(str(tmp_path)), "x")
    assert run.cycles == 0
    assert run.faults == (f"{tmp_path}: no cycle is committed yet",)


def test_of_several_folders_those_that_are_runs_are_read(day: Path, tmp_path: Path) -> None:
    loaded = load_runs([str(day), str(tmp_path), str(day)])
    assert [run.name for run in loaded.runs] == ["day"]
    assert loaded.refused == (f"{tmp_path}: not a run folder: it has no config.yaml",)
    with pytest.raises(InputError, match=r"not a run folder: it has no config\.yaml"):
        load_runs([str(tmp_path)])


def test_names_tell_runs_apart() -> None:
    assert short_names(["a/week", "b/other"]) == ["week", "other"]
    assert short_names(["a/week", "b/week/", "s3://bucket/c/week"]) == [
        "a/week",
        "b/week",
        "c/week",
    ]
    assert short_names(["/"]) == ["run"]


def test_a_name_never_leads_out_of_a_folder(day: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(day / "journal")
    assert [run.name for run in load_runs(["..", str(day)]).runs] == ["day"]
    assert short_names(["s3://bucket/.."]) == ["bucket"]


def test_a_hole_in_a_journal_is_told(tmp_path: Path) -> None:
    given = simulated()
    write_run(open_store(str(tmp_path)), given, made_up_records(given, 12))
    for cycle in (3, 7, 8):
        (tmp_path / record_path("production", cycle)).unlink()
    assert load_runs([str(tmp_path)]).runs[0].faults == (
        "production: no record of cycle 3",
        "production: no record of cycle 7 to 8",
    )
