"""The results page is made from small tables; the runs behind them need not be there any more."""

import shutil
from pathlib import Path

import pytest
from click import BadParameter
from click.testing import CliRunner

from divergence.errors import InputError
from orchestrator.charts.picture import svg
from orchestrator.report.load import load_runs
from orchestrator.report.write import compute
from orchestrator.storage.open import open_store
from scripts.results import experiments, results
from scripts.results.experiment_tables import TABLES, read_arms, read_table, write_tables
from scripts.results.experiments import Experiment, PlannedRun
from scripts.results.readme import RESULTS, ROOT
from scripts.results.reproduce import Seeds, main
from scripts.results.results import page_text
from scripts.results.running import Forecast, check_configs, run_all
from support.made_up_runs import made_up_records, write_run

SMALL = ("cycles=60", "search.instances=8")
WEEK = Experiment("week", "paper-week", SMALL)
LOSSES = {"production": 0.3, "entropic": 0.001}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of an experiment, and its tables."""
    out = tmp_path_factory.mktemp("paper")
    for run in WEEK.runs((1, 2)):
        made = made_up_records(run.config, 60, run.seed, loss=LOSSES)
        write_run(open_store(str(out / run.name)), run.config, made)
    folders = [str(out / f"week-{seed}") for seed in (1, 2)]
    write_tables(WEEK, folders, str(out / "report"), out / "tables")
    return out


@pytest.mark.slow
def test_the_page_is_made_from_tables_alone(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "tables"
    shutil.copytree(folder / "tables", alone)
    text = page_text(alone, tmp_path)
    report = compute(load_runs([str(folder / "week-1"), str(folder / "week-2")]))
    retained = report.sections[0]
    for finding in retained.findings:
        assert f"- {finding.run}: {finding.text} *{finding.verdict}*" in text
    assert "### Every rule\n\nNot run yet." in text
    only_first = compute(load_runs([str(folder / "week-1")])).sections[0].charts[0]
    drawn = (tmp_path / "week-retained.svg").read_text()
    assert len(drawn) == pytest.approx(len(svg(only_first).decode()), rel=0.05)
    assert sum(path.stat().st_size for path in alone.iterdir()) < 40_000


@pytest.mark.skipif(not TABLES.exists(), reason="the experiments have not been run")
def test_the_committed_page_is_that_of_the_committed_tables(tmp_path: Path) -> None:
    page = (ROOT / RESULTS).read_text(encoding="utf-8")
    assert page_text(TABLES, tmp_path).strip() in page
    for picture in tmp_path.glob("*.svg"):
        assert (results.PICTURES / picture.name).exists()


@pytest.mark.slow
def test_an_arm_has_its_numbers_in_a_row(folder: Path) -> None:
    arms = read_arms(folder / "tables")
    assert list(arms["arm"]) == ["production", "entropic"] * 2
    assert (arms["cycles"] == 36).all()
    assert (arms["retained"][1::2].to_numpy() > arms["retained"][::2].to_numpy()).all()
    found = read_table(folder / "tables", "week")
    assert found is not None
    assert [(run.name, run.cycles) for run in found.runs] == [("week-1", 60), ("week-2", 60)]


@pytest.mark.slow
def test_tables_with_the_words_of_earlier_versions_are_read(folder: Path, tmp_path: Path) -> None:
    new = (folder / "tables" / "week.json").read_text()
    old = new.replace("too little data", "cannot be told").replace(
        "not seen here", "does not agree"
    )
    assert old != new
    (tmp_path / "week.json").write_text(old)
    before, after = (read_table(where, "week") for where in (tmp_path, folder / "tables"))
    assert before is not None
    assert after is not None
    assert [s.findings for s in before.sections] == [s.findings for s in after.sections]


@pytest.mark.slow
def test_writing_again_replaces_the_rows_of_an_experiment(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "tables", tmp_path / "tables")
    write_tables(WEEK, [str(folder / "week-1")], str(tmp_path / "report"), tmp_path / "tables")
    assert list(read_arms(tmp_path / "tables")["run"]) == ["week-1"] * 2


@pytest.mark.slow
def test_an_explanation_is_shown_only_where_a_claim_does_not_agree(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = read_table(folder / "tables", "week")
    assert table is not None
    verdicts = {section.key: results.over_runs(section.findings)[0] for section in table.sections}
    parts = [
        results.ResultPart("week", key, key, explanation=f"reason of {key}.") for key in verdicts
    ]
    monkeypatch.setattr(results, "PARTS", parts)
    text = page_text(folder / "tables", tmp_path)
    assert results.Verdict.AGREES in verdicts.values()
    assert set(verdicts.values()) != {results.Verdict.AGREES}
    for key, verdict in verdicts.items():
        assert (f"reason of {key}." in text) == (verdict is not results.Verdict.AGREES)


@pytest.mark.slow
def test_the_rest_of_a_run_is_what_remains(folder: Path) -> None:
    first, new = PlannedRun(WEEK, 1), PlannedRun(WEEK, 3)
    pace = Forecast([first, new], folder, jobs=2, actors=1, event_s=1e-6)
    assert (pace.finished, pace.left_of(first)) == (1, 0)
    assert pace.remaining() == pytest.approx(new.seconds(1e-6, 1))
    assert new.seconds(1e-6, 1) > new.seconds(1e-6, 1, done=30) > 0
    assert "1 of 2 runs" in pace.line([new])
    assert "week-3 0/60 cycles" in pace.line([new])


@pytest.mark.slow
def test_a_run_of_another_config_is_not_taken_for_this_one(folder: Path) -> None:
    check_configs(WEEK.runs((1, 2)), folder)
    with pytest.raises(InputError, match=r"week-1: its run has another config"):
        check_configs(Experiment("week", "paper-week", (*SMALL, "model.tau=9")).runs((1,)), folder)


def test_a_run_that_fails_twice_ends_all_with_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "holdfast"
    broken.write_text("#!/bin/sh\necho the disk is full\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(experiments, "HOLDFAST", str(broken))
    with pytest.raises(SystemExit) as ended:
        run_all(Forecast(WEEK.runs((1, 2)), tmp_path / "out", 1, 1, 1e-6))
    assert ended.value.code == 3
    said = capsys.readouterr().err
    assert said.count("week-1 failed:\nthe disk is full") == 2
    assert "the same command resumes" in said


def test_seeds_are_ranges_and_lists() -> None:
    assert Seeds().convert("1-3", None, None) == (1, 2, 3)
    assert Seeds().convert("101,5-6,101", None, None) == (101, 5, 6)
    for wrong in ("", "3-1", "x", "-1"):
        with pytest.raises(BadParameter):
            Seeds().convert(wrong, None, None)


def test_a_mistake_of_the_caller_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--list", "--set", "cycles=0", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert done.output.startswith("reproduce: ")
    assert "--set cycles=0: cycles: should be greater than or equal to 1" in done.output
