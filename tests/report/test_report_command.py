import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.journal.journal import record_path
from orchestrator.report.glossary import WORDS
from orchestrator.report.load import load_runs
from orchestrator.report.write import compute, write
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output
from orchestrator.storage.store import read
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run


def report(*arguments: str) -> Result:
    return CliRunner().invoke(holdfast, ["report", *arguments])


@pytest.fixture(scope="module")
def done(day: Path) -> Result:
    """The command's report of the day, in its run folder."""
    return report(str(day))


@pytest.fixture
def page(day: Path, done: Result) -> str:
    assert done.exit_code == 0, done.output
    return (day / "report.html").read_text()


def test_everything_stands_in_the_run_folder(day: Path, done: Result, page: str) -> None:
    assert "Retained fraction: agrees" in done.output
    assert f"report: {day}/report.html" in done.output
    for name, rows in (("cycles", 192), ("instances", 192 * 16)):
        table, text = pd.read_parquet(day / f"{name}.parquet"), pd.read_csv(day / f"{name}.csv")
        assert len(table) == len(text) == rows
        assert list(table.columns) == list(text.columns)
    for key in ("retained", "norms", "lift", "rho0", "where-it-diverges", "champion-settings"):
        root = ElementTree.parse(day / "figures" / f"{key}.svg").getroot()
        assert root.tag.endswith("svg")
    assert "<!doctype html>" in page


def test_brief_is_a_decision_the_retained_fraction_and_the_claims(
    day: Path, tmp_path: Path
) -> None:
    done = report(str(day), "--out", str(tmp_path), "--brief")
    decision, retained, claims = done.output.splitlines()
    assert decision.startswith("Switch to entropic. The served log-loss of entropic is ")
    assert "production retains" in retained
    assert "entropic retains" in retained
    assert claims.startswith("the paper's claims: agrees (")
    assert "retained fraction" in claims
    assert claims.endswith(f"; the page: {tmp_path}/report.html")


@pytest.mark.slow
def test_a_report_on_the_papers_design_opens_with_the_picture_then_the_decision(
    tmp_path: Path,
) -> None:
    given = simulated("""[{name: production, rule: l2}, {name: entropic, rule: entropic,
        start_from: {arm: production, cycle: 8}}]""")
    write_run(open_store(str(tmp_path)), given, made_up_records(given, 40))
    assert report(str(tmp_path)).exit_code == 0
    head, _, rest = (tmp_path / "report.html").read_text().partition("</header>")
    marks = (
        "<h1>",
        'id="chart-retained"',
        'class="decision"',
        "Criteo 23%",
        'class="table claims"',
    )
    assert sorted(marks, key=head.index) == list(marks)
    assert 'id="chart-retained"' not in rest
    retained, decision, _ = report(str(tmp_path), "--brief").output.splitlines()
    table = pd.read_csv(tmp_path / "cycles.csv")
    parts = []
    for arm in ("production", "entropic"):
        own = table[table["arm"] == arm]["retained_fraction"]  # all cycles, not the shared ones
        low = int((own < 0.8 - 1e-12).sum())
        parts.append(
            f"{arm} retains {own.mean():.1%} of its instances and fell below 80% in "
            f"{low or 'none'} of its {len(own)} cycles"
        )
    assert retained == "; ".join(parts)
    assert "of its 40 cycles; entropic" in retained
    assert "served log-loss" in decision or "too few" in decision


def test_the_page_has_the_words_of_the_glossary(page: str) -> None:
    lines = (Path(__file__).parents[2] / "configs" / "GLOSSARY.md").read_text().splitlines()
    cells = [tuple(line.strip("| ").split(" | ")) for line in lines if line.startswith("| ")]
    assert dict(cells[1:]) == WORDS
    assert page.index('<a href="#words">') < page.index("<main>") < page.index('id="words"')
    assert all(f"<dt>{word}</dt>" in page for word in WORDS)


def test_a_page_on_other_runs_ends_with_the_papers_claims(page: str) -> None:
    marks = ('class="decision"', "Criteo 23%", 'id="rules"', 'id="chart-retained"', 'id="bound"',
             'class="table claims"')  # fmt: skip
    assert sorted(marks, key=page.index) == list(marks)


@pytest.mark.slow
def test_again_is_the_same_and_replaces(day: Path, page: str, tmp_path: Path) -> None:
    picture = (day / "figures" / "lift.svg").read_bytes()
    for where in (day, tmp_path):
        assert report(str(day), "--out", str(where)).exit_code == 0
        assert (where / "report.html").read_text() == page
        assert (where / "figures" / "lift.svg").read_bytes() == picture


@pytest.mark.slow
def test_several_runs_side_by_side(day: Path, tmp_path: Path) -> None:
    given = simulated()
    for seed in (1, 2):
        store = open_store(str(tmp_path / f"seed-{seed}"))
        write_run(store, given, made_up_records(given, 40, seed))
    runs = [str(day), *(str(tmp_path / f"seed-{seed}") for seed in (1, 2))]
    done = report(*runs, "--out", str(tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert {arm["run"] for arm in told["arms"]} == {"day", "seed-1", "seed-2"}
    assert len(told["sections"][0]["findings"]) == 3
    assert 0 < told["arms"][0]["retained"]["low"] < told["arms"][0]["retained"]["mean"] < 1


@pytest.mark.slow
def test_a_damaged_record_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    given = simulated()
    write_run(open_store(str(tmp_path)), given, made_up_records(given, 20))
    (tmp_path / record_path("production", 7)).write_text("{}")
    done = report(str(tmp_path))
    assert done.exit_code == 0
    assert "cycle-000007.json: corrupt" in done.output
    assert "corrupt" in (tmp_path / "report.html").read_text()


def test_a_run_without_cycles_is_a_line_and_no_page(tmp_path: Path) -> None:
    write_run(open_store(str(tmp_path)), simulated(), [])
    done = report(str(tmp_path))
    assert isinstance(done.exception, InputError)
    assert str(done.exception) == f"{tmp_path}: no cycle is committed yet"
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_run_without_cycles_or_their_number_is_shown_beside_others(
    day: Path, tmp_path: Path
) -> None:
    write_run(open_store(str(tmp_path / "empty")), simulated(), [])
    done = report(str(day), str(tmp_path / "empty"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0
    assert "no cycle is committed yet" in done.output
    assert "of None" not in done.output + (tmp_path / "out/report.html").read_text()


@pytest.mark.slow
def test_a_folder_that_is_no_run_is_refused_after_the_others_are_shown(
    day: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = report(str(day), str(tmp_path / "nothing"), "--out", str(out))
    assert isinstance(done.exception, InputError)
    assert "nothing: not a run folder: it has no config.yaml" in str(done.exception)
    assert (out / "report.html").exists()
    assert isinstance(report(str(tmp_path)).exception, InputError)
    assert not (tmp_path / "report.html").exists()


def test_a_file_is_no_folder_for_a_report(day: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = report(str(day), "--out", str(tmp_path / "file"))
    assert str(done.exception) == f"{tmp_path}/file: cannot be written to: not a folder"


def test_an_unknown_arm_is_refused(day: Path) -> None:
    done = report(str(day), "--abort", "nobody:1:2")
    assert "no run has an arm named 'nobody'" in str(done.exception)
    done = report(str(day), "--baseline", "nobody")
    assert "no run has an arm named 'nobody'" in str(done.exception)


@pytest.mark.slow
def test_a_run_on_object_storage_has_its_report_there(bucket: str) -> None:
    given = simulated()
    write_run(open_store(bucket), given, made_up_records(given, 30))
    assert report(bucket).exit_code == 0
    assert "report.html" in open_store(bucket).names("")
    assert report(bucket, "--out", f"{bucket}-report").exit_code == 0  # again, and elsewhere
    assert read(open_store(f"{bucket}-report"), "report.html") == read(
        open_store(bucket), "report.html"
    )


@pytest.mark.slow
def test_the_script_is_the_command(day: Path, tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "retained_fraction_report.py"
    command = [sys.executable, str(script), str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: ")
    assert "not a run folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_week_of_six_arms_is_small_and_takes_seconds(tmp_path: Path) -> None:
    names = ("l2", "none", "entropic", "euclidean", "projection", "naive")
    arms = ", ".join(f"{{name: {name}, rule: {name}}}" for name in names)
    given = simulated(f"[{arms}]", instances=40)
    alone = simulated("[{name: l2, rule: l2}]", instances=40)
    made = (
        r.model_copy(update={"arm": name}) for r in made_up_records(alone, 672) for name in names
    )
    write_run(open_store(str(tmp_path / "week")), given, made)
    begin = time.process_time()
    loaded = load_runs([str(tmp_path / "week")])
    write(compute(loaded), Output(str(tmp_path / "out")))
    assert time.process_time() - begin < 30  # about 9 s; other people's work may be in the way
    assert (tmp_path / "out" / "report.html").stat().st_size < 5e6


def test_the_head_says_which_rows_were_not_trained(tmp_path: Path) -> None:
    given, run = simulated("[{name: a, rule: l2}, {name: b, rule: entropic}]"), tmp_path / "lin"
    made = made_up_records(given, 20)
    for number in (0, 1):  # the first cycle of both arms, which have the same chunk
        chunk = replace(made[number].chunk, set_aside={"timestamp is null": 20})
        made[number] = made[number].model_copy(update={"chunk": chunk})
    assert made[0].cycle == made[1].cycle
    write_run(open_store(str(run)), given, made)
    text = f"lin: 20 rows set aside: {run}/quarantine"
    assert text in report(str(run)).output.splitlines()
    assert f"<li>{text}</li>" in (run / "report.html").read_text()


def test_a_run_that_failed_to_start_is_one_line(day: Path, tmp_path: Path) -> None:
    given, failed = simulated("[{name: a, rule: l2}, {name: b, rule: entropic}]"), tmp_path / "no"
    write_run(open_store(str(failed)), given, [])
    text = f"{failed}: no cycle is committed yet"
    alone = report(str(failed))
    assert str(alone.exception) == text
    assert sorted(path.name for path in failed.iterdir()) == ["config.yaml"]
    output = report(str(day), str(failed), "--out", str(tmp_path / "report")).output
    assert [line for line in output.splitlines() if line.startswith("no: ")] == [f"no: {text}"]
