"""Runs opened in Python: the report's own tables and figures."""

import base64
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from divergence.errors import InputError
from orchestrator.charts.picture import svg
from orchestrator.journal.journal import read_record
from orchestrator.journal.record import CycleRecord
from orchestrator.notebook import ReportFigures, open_run
from orchestrator.report import load
from orchestrator.report.load import load_runs
from orchestrator.report.write import compute, page_of
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store
from support.configs import simulated, small
from support.made_up_runs import made_up_records, write_run
from support.runs import go_here, records
from support.small_run import SmallRun


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, given = tmp_path_factory.mktemp("runs") / "day", simulated(instances=8)
    write_run(open_store(str(folder)), given, made_up_records(given, 40))
    return folder


def test_tables_and_figures_are_those_of_the_report(day: Path) -> None:
    run, report = open_run(day), compute(load_runs([str(day)]))
    pd.testing.assert_frame_equal(run.cycles, report.study.cycles)
    pd.testing.assert_frame_equal(run.instances, report.study.instances)
    charts = [chart for section in report.sections for chart in section.charts]
    assert list(run.figures) == [chart.key for chart in charts]
    figure = run.figure("retained")
    assert figure._repr_svg_().encode() == svg(charts[list(run.figures).index("retained")])
    shown = ReportFigures([figure])._repr_html_()
    assert figure.caption in shown
    assert base64.b64encode(figure._repr_svg_().encode()).decode() in shown
    assert run.advice.decisions == report.decisions
    assert f"<b>{report.decisions[0].headline}</b>" in run.advice._repr_html_()
    assert repr(run.advice).startswith(f"day: {report.decisions[0].headline}. ")
    assert run.page.html == page_of(report)
    assert unescape(run.page._repr_html_().split('"')[1]) == page_of(report)


def test_a_table_is_the_user_s_own(day: Path) -> None:
    run = open_run(day)
    mine = run.cycles
    mine["retained_fraction"] = 0.0
    assert run.cycles["retained_fraction"].mean() > 0.5


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("svg", b"<?xml"),
        ("png", b"\x89PNG"),
        pytest.param("pdf", b"%PDF", marks=pytest.mark.slow),
    ],
)
def test_a_figure_is_saved(day: Path, tmp_path: Path, kind: str, start: bytes) -> None:
    path = tmp_path / "new" / f"retained.{kind}"
    open_run(day).figure("retained").save(path)
    assert path.read_bytes().startswith(start)


def test_a_run_under_way_is_read_again_but_no_record_twice(
    run: SmallRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(store: Store, arm: str, cycle: int) -> CycleRecord:
        read.append(cycle)
        return original(store, arm, cycle)

    original = read_record
    monkeypatch.setattr(load, "read_record", counted)
    opened = open_run(run.store.uri)
    assert opened.cycles.empty
    assert opened.faults == (f"{run.store.uri}: no cycle is committed yet",)
    for _ in range(2):
        run.play()
    assert opened.cycles.empty
    assert list(opened.refresh().cycles["cycle"]) == [0, 1]
    run.play()
    assert list(opened.refresh().cycles["cycle"]) == [0, 1, 2]
    assert read == [0, 1, 2]
    assert opened.faults == ()


def test_lines_are_those_that_served_and_trained(tmp_path: Path) -> None:
    lines = "search.select={kind: lineages, replace_every: [1]}"
    hot = "search.ranges.eta0={low: 0.1, high: 3000}"
    config = small(lines, hot, "cycles=14", "search.select.within.eta0=1000")
    go_here(config, tmp_path / "run")
    opened = open_run(str(tmp_path / "run"))
    found: Any = opened.lines.set_index(["arm", "cycle", "line"]).sort_index()
    assert len(found) == 2 * 14 * 6
    copied = 0
    for arm in ("production", "entropic"):
        made = records(tmp_path / "run", arm)
        for record, after in pairwise(made):
            assert record.lineages is not None
            rows = found.loc[arm, record.cycle]
            replaced = {one.line: one for one in record.lineages.replaced}
            assert set(rows.index[rows["replaced"]]) == set(replaced)
            following = found.loc[arm, after.cycle]
            for number, one in replaced.items():
                copied += 1
                assert rows["why"][number] == one.reason
                copy = following.loc[number]
                assert (copy["parent"], copy["born"]) == (one.parent, record.cycle)
                assert copy["eta0"] == record.lineages.state.lines[number].setting.eta0
            champion = rows.index[rows["champion"]]
            assert list(champion) == [record.lineages.state.champion]
            assert rows["why"][champion[0]] == record.lineages.why
            assert following["served_logloss"][champion[0]] == after.served_logloss
        first = found.loc[arm, 0]
        assert first["parent"].isna().all()
    assert copied > 3
    report = compute(load_runs([str(tmp_path / "run")]))
    (section,) = [section for section in report.sections if section.key == "lines"]
    worse = found.query("replaced and status == 'retained'").groupby("arm").size()
    assert worse.sum() > 0
    for finding in section.findings:
        count = worse.get(finding.text.partition(":")[0], 0)
        assert f"{count} lines were replaced because others served better" in finding.text


def test_a_run_without_lines_has_an_empty_table(day: Path) -> None:
    lines = open_run(day).lines
    assert lines.empty
    assert lines["served_logloss"].dtype == np.float64


def test_several_runs_and_mistakes(day: Path, tmp_path: Path) -> None:
    given = simulated(instances=8)
    write_run(open_store(str(tmp_path / "b")), given, made_up_records(given, 20, seed=2))
    both = open_run(str(day), str(tmp_path / "b"), challenger="production")
    assert list(both.cycles["run"].unique()) == ["day", "b"]
    assert [one.challenger for one in both.advice.decisions] == ["production"] * 2
    assert len(repr(both).splitlines()) == 2
    for call, line in (
        (lambda: open_run(str(tmp_path / "c")), "c: not a run folder: it has no config.yaml"),
        (lambda: open_run(str(day), str(tmp_path / "c")), "c: not a run folder"),
        (lambda: open_run(), "open_run: name at least one run"),
        (lambda: both.figure("regret"), "figure 'regret': these runs have only lift, retained, "),
        (lambda: both.figure("retained").save("x.gif"), "x.gif: must end in .svg, .png, .pdf"),
        (lambda: both.page.save(f"{tmp_path}/"), f"{tmp_path}/: must be a file, not a folder"),
        (lambda: open_run(str(day), baseline="x"), "no run has an arm named 'x'"),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert line in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_run_on_an_object_store(bucket: str) -> None:
    given = simulated(instances=4)
    write_run(open_store(bucket), given, made_up_records(given, 3))
    opened = open_run(bucket)
    assert len(opened.cycles) == 6
    opened.figure("retained").save(f"{bucket}/figures/retained.svg")
    with open_store(bucket).open("figures/retained.svg") as file:
        assert file.read().decode() == opened.figure("retained")._repr_svg_()
