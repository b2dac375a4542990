"""The report's section on lines, from a run that was really trained."""

import itertools
from pathlib import Path

import numpy as np

from orchestrator.charts.chart import Cells, Dots, Line
from orchestrator.journal.record import members_of
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import run
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.report.assemble import sections_of
from orchestrator.report.load import load_runs
from orchestrator.report.sections.lines import champion_path
from orchestrator.report.study import Study
from orchestrator.storage.open import open_store
from orchestrator.watch.console import line, summary
from support.configs import small

LINES = ("search.select={kind: lineages, replace_every: [1, 4]}", "cycles=8",
         "source.events_per_cycle=150", "arms=[{name: only, rule: l2}]")  # fmt: skip


def test_the_family_tree_the_regret_and_the_settings(tmp_path: Path) -> None:
    config, store = small(*LINES), open_store(str(tmp_path))
    run(config, store, prepare(store, config), [], LocalLinePool)
    study = Study(load_runs([str(tmp_path)]).runs)
    sections = {section.key: section for section in sections_of(study)}
    section = sections["lines"]
    tree, _regret, _settings = section.charts
    assert [len(chart.panels) for chart in section.charts] == [1, 1, 3]
    cells, _copies, descent = tree.panels[0].marks
    assert isinstance(cells, Cells)
    assert isinstance(descent, Line)
    assert descent.tone == 0, "the path has the arm's colour: cells have that of losses"
    best = [shade for shade, text in zip(cells.shade, cells.texts, strict=True)
            if "0.00000 behind the best" in text]  # fmt: skip
    assert len(best) >= 7
    assert max(best) < 0.1 < max(cells.shade) == 1.0
    records = study.runs[0].records["only"]
    path = champion_path(records)
    last = records[-1].lineages
    assert last is not None
    assert tuple(path[-1]) == (7, last.state.champion)
    assert path[0][0] == 0
    assert np.all(np.diff(path[:, 0]) >= 0)
    copies = {(r.cycle, one.line, one.parent)
              for r in records if r.lineages for one in r.lineages.replaced}  # fmt: skip
    jumps = [(a[0], b[1], a[1]) for a, b in itertools.pairwise(path) if a[1] != b[1]]
    assert set(jumps) <= copies
    assert "0 lines were replaced because others served better" in section.findings[0].text
    assert "mean" not in section.findings[0].text
    assert "lines" not in {s.key for s in sections_of(Study(()))}


def test_a_served_mean_is_shown_with_its_members(tmp_path: Path) -> None:
    hot = ("serve.mean_of=3", "cycles=12", "search.select.start={eta0: 6}",
           "search.select.replace_every=[1, 2]", "search.ranges.eta0={low: 0.03, high: 300}",
           "source.ads=1000")  # fmt: skip
    config, store = small(*LINES, *hot), open_store(str(tmp_path))
    run(config, store, prepare(store, config), [], LocalLinePool)
    study = Study(load_runs([str(tmp_path)]).runs)
    (section,) = (section for section in sections_of(study) if section.key == "lines")
    *_, last = records = study.runs[0].records["only"]
    members = members_of(last)
    text = section.findings[0].text
    named = ", ".join(map(str, sorted(members)))
    assert f"The served model is the mean of 3 lines: {named}. Its members changed in " in text
    assert " than the champion's alone." in text
    dots = section.charts[0].panels[0].marks[-1]
    assert isinstance(dots, Dots)
    assert len(dots.x) == 3 * 12
    replaced = [one for r in records if r.lineages for one in r.lineages.replaced]
    worse = sum(one.reason.startswith("worse") for one in replaced)
    assert worse > 0
    assert f"{worse} lines were replaced because others served better" in text
    assert line(last).endswith("serves the mean of lines " + ", ".join(map(str, members)))
    assert summary(last)["members"] == list(members)
