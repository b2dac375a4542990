import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from divergence.errors import InputError
from orchestrator.charts.chart import Line
from orchestrator.config.file import read_config
from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.report.aborts import Abort, AbortId, choose_aborts, parse_filename
from orchestrator.report.assemble import sections_of
from orchestrator.report.interval import interval_over_runs
from orchestrator.report.load import Loaded, Run
from orchestrator.report.section import Section
from orchestrator.report.sections.abort_vectors import abort_vectors, thinned
from orchestrator.report.sections.lost_instances import saved_seconds
from orchestrator.report.sections.retained import discards
from orchestrator.report.sections.settings import cells_of
from orchestrator.report.sides import study_of
from orchestrator.report.study import Study, running_mean
from orchestrator.report.verdict import Verdict
from orchestrator.report.write import compute, write
from orchestrator.storage.output import Output
from support.configs import ARMS, config, simulated
from support.made_up_runs import made_up_records

RULES = """[{name: production, rule: l2}, {name: entropic, rule: entropic},
    {name: slow, rule: {name: euclidean, dual_step: 1}},
    {name: fast, rule: {name: euclidean, dual_step: 10}}, {name: naive, rule: naive}]"""


def run_of(given: RunConfig, made: list[CycleRecord], name: str = "run") -> Run:
    arms = {a.name: tuple(r for r in made if r.arm == a.name) for a in given.arms}
    return Run(name, f"runs/{name}", given, arms, ())


def made_up(arms: str = ARMS, cycles: int = 96, seed: int = 0, **kinds: dict[str, float]) -> Run:
    given = simulated(arms)
    return run_of(given, made_up_records(given, cycles, seed, **kinds))


def section(key: str, *runs: Run) -> Section:
    return next(one for one in sections_of(Study(runs)) if one.key == key)


def verdict(key: str, *runs: Run) -> Verdict | None:
    return section(key, *runs).findings[0].verdict


def test_what_the_paper_says_is_found_where_it_is_so(day_run: Run) -> None:
    found = {s.key: s.findings[0].verdict for s in sections_of(Study((day_run,))) if s.findings}
    assert found["retained"] is Verdict.AGREES
    assert found["norms"] is Verdict.AGREES
    assert found["lift"] is Verdict.AGREES


GRID = "{eta0: [1, 3, 10], alpha: [3], beta: [0.4, 0.8]}"


def sustained_run(stable: dict[str, float], grid: str = GRID) -> Run:
    """A run of kept settings; each family loses every cycle above its largest stable eta0."""
    text = (
        "source: simulator\nsustain: " + grid + "\narms:\n"
        "  - {name: production, rule: {name: l2, lam: 0.001}}\n"
        "  - {name: ours, rule: {name: entropic, rho: 1, dual_step: 1}}\n"
    )
    given = read_config(text, "run.yaml")
    hot = {
        arm.name: 1e9 if arm.ranges.eta0.choice[0] > stable[arm.family] else 0.0  # type: ignore
        for arm in given.arms
    }
    return run_of(given, made_up_records(given, 8, loss=hot))


def test_the_edge_of_stability_is_found_and_compared() -> None:
    better = sustained_run({"production": 1, "ours": 3})
    (only,) = sections_of(Study((better,)))
    assert only.findings[0].verdict is Verdict.AGREES
    assert "beta 0.4: 1 and 3" in only.findings[0].text
    assert "2 of the settings" in only.findings[0].text
    table = {row[0].text: row for row in only.tables[0].rows}
    assert [cell.text for cell in table["ours"][1:4]] == ["3", "3", "67%"]
    assert table["production"][4].text == "0", "its other settings are lost from the first cycle"
    assert verdict("stability", sustained_run({"production": 3, "ours": 1})) is Verdict.DISAGREES
    assert verdict("stability", sustained_run({"production": 3, "ours": 3})) is Verdict.DISAGREES


def test_nothing_stable_is_an_edge_below_the_grid() -> None:
    run = sustained_run({"production": 0, "ours": 10})
    chart = section("stability", run).charts[0]
    lines = {mark.name: mark.y for mark in chart.panels[0].marks if isinstance(mark, Line)}
    assert (lines["production"] < 1).all()
    assert "beta 0.4: 0 and 10" in section("stability", run).findings[0].text


def test_with_several_alphas_the_edge_is_that_of_the_first_step() -> None:
    grid = "{eta0_over_alpha: [0.1, 1, 10], alpha: [1, 10], beta: [0.4]}"
    shown = section("stability", sustained_run({"production": 1, "ours": 10}, grid))
    assert "alpha 1, beta 0.4: 1 and 10; alpha 10, beta 0.4: 0.1 and 1." in shown.findings[0].text
    edge, cells = (chart.panels[0] for chart in shown.charts)
    assert (edge.x.label, edge.y.label) == ("alpha", "largest stable eta0 / alpha")
    assert (cells.x.label, cells.y.label) == ("eta0 / alpha", "alpha")
    assert [cell.text for cell in shown.tables[0].rows[1][1:3]] == ["10", "1"]


def test_a_map_stands_beside_runs_that_search(day_run: Run) -> None:
    both = Study((day_run, sustained_run({"production": 1, "ours": 3})))
    keys = [one.key for one in sections_of(both)]
    assert {"retained", "stability"} <= set(keys)
    assert [finding.run for finding in section("retained", *both.runs).findings] == ["day"]


def test_settings_that_win_have_no_verdict_before_there_are_enough_cycles() -> None:
    assert verdict("settings", made_up(cycles=11)) is Verdict.OPEN
    assert "a verdict takes 12" in section("settings", made_up(cycles=4)).findings[0].text
    assert verdict("settings", made_up(cycles=40)) is not Verdict.OPEN


def test_lines_have_no_draws_and_no_verdict_on_the_papers_search() -> None:
    given = config(f"source: simulator\nsearch: {{select: {{kind: lineages}}}}\narms: {ARMS}\n")
    run = run_of(given, made_up_records(given, 40))
    [found] = section("settings", run).findings
    assert found.verdict is None
    assert found.text.endswith("Here a line keeps its setting, so there is no verdict.")
    regime = section("regime", run)
    assert regime.findings == ()
    assert "runs of lines have no draws" in regime.note


def test_the_opposite_is_found_where_it_is_so() -> None:
    run = made_up(loss={"production": 0.004, "entropic": 0.2}, lift={"entropic": -1.0})
    assert verdict("retained", run) is Verdict.DISAGREES
    assert verdict("lift", run) is Verdict.DISAGREES


def test_what_the_paper_does_not_compare_has_no_verdict_on_it(day_run: Run) -> None:
    swapped = Study((day_run,), baseline="entropic", challenger="production")
    judged = {one.key: [f.verdict for f in one.findings] for one in sections_of(swapped)}
    for key in ("retained", "norms", "lift"):
        assert judged[key] == [None]
        assert verdict(key, day_run) is not None


def test_two_arms_alike_leave_it_open() -> None:
    arms = "[{name: a, rule: l2}, {name: b, rule: euclidean}]"
    run = made_up(arms, loss={"a": 0.1, "b": 0.1})
    gain = section("retained", run).findings[0].statements[2]
    assert gain.verdict is not Verdict.AGREES
    assert section("lift", run).findings[0].statements[0].verdict is Verdict.OPEN


def test_a_few_cycles_decide_nothing() -> None:
    run = made_up(cycles=6, loss={"production": 0.3, "entropic": 0.0}, lift={"entropic": 3.0})
    for key in ("retained", "norms", "lift"):
        assert verdict(key, run) is Verdict.OPEN


def test_shares_of_cycles_that_discard() -> None:
    fraction = pd.Series([1.0, 0.9, 0.8, 0.79, 0.5, np.nan, 0.95])
    assert discards(fraction, 0.2).mean == pytest.approx(2 / 6)
    assert discards(fraction, 0.05).mean == pytest.approx(4 / 6)


def test_lift_is_relative_to_the_baseline_and_positive_where_better() -> None:
    run = made_up(lift={"entropic": 2.0})
    pair = Study((run,)).main_pair(run)
    assert pair is not None
    assert (pair.arm, pair.baseline) == ("entropic", "production")
    assert pair.lift().mean() == pytest.approx(2.0, abs=0.4)


def test_the_smoothed_lift_begins_with_the_first_lift() -> None:
    [chart] = section("lift", made_up(cycles=20)).charts
    raw, smooth = (mark for mark in chart.panels[0].marks if isinstance(mark, Line))
    assert math.isnan(raw.y[0]), "no model is served in the first cycle"
    assert np.isnan(smooth.y).tolist() == np.isnan(raw.y).tolist()


def test_the_acclimation_of_an_arm_that_began_with_the_baselines_model_does_not_count() -> None:
    arms = ARMS.replace(
        "rule: entropic}", "rule: entropic, start_from: {arm: production, cycle: 16}}"
    )
    given = simulated(arms)
    made = [
        r.model_copy(update={"served_logloss": 0.3})
        if r.arm == "entropic" and 16 <= r.cycle < 36
        else r
        for r in made_up_records(given, 96, lift={"entropic": 1.0})
    ]
    run = run_of(given, made)
    pair = Study((run,)).main_pair(run)
    assert pair is not None
    assert pair.acclimation == 20
    assert len(pair.lift()) == 80
    assert verdict("lift", run) is Verdict.AGREES
    marks = section("lift", run).charts[0].panels[0].marks
    assert [(m.low, m.high) for m in marks if type(m).__name__ == "Span"] == [(16.0, 36.0)]


def test_the_best_euclidean_arm_stands_for_its_rule() -> None:
    run = made_up(RULES, lift={"entropic": 1.0, "slow": -2.0, "fast": 0.2})
    found = section("entropic-euclidean", run)
    assert "over fast" in found.findings[0].text
    better, *smaller = found.findings[0].statements
    assert better.verdict is Verdict.AGREES
    assert {one.verdict for one in smaller} == {Verdict.OPEN}
    assert [len(found.charts[0].panels), len(found.tables[0].rows)] == [3, 3]


def test_no_duel_without_both_rules(day_run: Run) -> None:
    assert "entropic-euclidean" not in {s.key for s in sections_of(Study((day_run,)))}


@pytest.mark.parametrize(
    ("loss", "lift", "expected"),
    [
        (0.005, 1.0, Verdict.DISAGREES),  # keeps more at no cost: the paper says it did not
        (0.005, -2.0, Verdict.AGREES),
        (0.4, 1.0, Verdict.AGREES),
    ],
)
def test_the_naive_rule(loss: float, lift: float, expected: Verdict) -> None:
    run = made_up(RULES, loss={"production": 0.1, "naive": loss}, lift={"naive": lift})
    assert verdict("rules", run) is expected


def test_arms_that_retain_the_same_share_are_a_tie() -> None:
    none = {"production": 0.0, "entropic": 0.0, "slow": 0.5, "fast": 0.5, "naive": 0.5}
    [both] = section("rules", made_up(ARMS, 20, loss=none)).findings
    assert "shared cycles of 2 arms, both retain " in both.text
    first_two = section("rules", made_up(RULES, 20, loss=none)).findings[-1]
    assert "production and entropic retain most (" in first_two.text


def test_times_per_event_are_over_the_cycles_that_all_arms_share() -> None:
    start = ARMS.replace(
        "rule: entropic}", "rule: entropic, start_from: {arm: production, cycle: 8}}"
    )
    run = made_up(start, 30)
    slow = tuple(
        r.model_copy(
            update={"outcomes": tuple(replace(o, seconds=9 * o.seconds) for o in r.outcomes)}
        )
        if r.cycle <= 16
        else r
        for r in run.records["production"]
    )
    rules = section("rules", replace(run, records={**run.records, "production": slow}))
    paces = [row[-2].order for row in rules.tables[0].rows]
    assert paces == pytest.approx([0.6, 0.6])
    assert "The decision's training time differs from it" in rules.note


def test_the_search_for_k_takes_the_smallest_that_suffices() -> None:
    arms = ", ".join(
        f"{{name: k{k}, rule: {{name: entropic, rho: {{k: {k}}}, dual_step: 10}}}}"
        for k in (0.1, 1, 3, 10)
    )
    run = made_up(f"[{arms}]", lift={"k0.1": -2.0, "k1": 0.0, "k3": 1.0, "k10": 1.0})
    found = section("bound", run)
    assert "the smallest that suffices is 3" in found.findings[0].text
    assert found.findings[0].verdict is Verdict.AGREES
    assert [chart.key for chart in found.charts] == ["rho0", "k-search"]


def test_arms_that_differ_in_more_than_k_are_no_search_for_it() -> None:
    arms = """[{name: a, rule: {name: entropic, rho: {k: 0.1}, dual_step: 10}},
        {name: b, rule: {name: entropic, rho: {k: 1}, dual_step: 1}}]"""
    found = section("bound", made_up(arms, cycles=20))
    assert [chart.key for chart in found.charts] == ["rho0"]
    assert {finding.verdict for finding in found.findings} == {None}


def test_the_report_says_which_arms_cannot_diverge() -> None:
    arms = """[{name: held, rule: {name: projection, rho: {k: 0.1}}},
        {name: ascent, rule: {name: entropic, rho: {k: 0.1}, dual_step: 10}},
        {name: free, rule: l2}]"""
    found = section("bound", made_up(arms, cycles=20))
    assert found.findings[-1].text.startswith("held: no instance can diverge: its rule scales")
    assert not any("ascent: " in one.text for one in found.findings)
    (table,) = found.tables
    rows = {row[1].text: [cell.text for cell in row[2:]] for row in table.rows}
    assert list(rows) == ["held", "ascent"]  # l2 has no bound
    assert [rows[arm][0] for arm in rows] == ["no", "yes"]
    assert rows["ascent"][2].endswith("%")


def test_causes_are_counted_and_cpu_saved_is_what_was_left_of_the_chunk() -> None:
    rows = pd.DataFrame(
        {
            "cycle": [0, 0, 0, 1],
            "status": ["retained", "retained", "diverged", "diverged"],
            "events": [100, 100, 100, 100],
            "events_done": [100, 100, 25, 50],
            "seconds": [1.0, 3.0, 0.5, 1.0],
        }
    )
    assert saved_seconds(rows) == pytest.approx(0.02 * 75 + 0.02 * 50)
    assert saved_seconds(rows.iloc[:2]) == 0.0


def test_cells_count_every_instance_once(day_run: Run) -> None:
    rows = Study((day_run,)).instances_of(day_run, "production")
    cells = cells_of(rows, (0.02, 40.0), (0.2, 1.0))
    tried = [int(text.split(" of ")[1].split()[0]) for text in cells.texts]
    assert sum(tried) == len(rows)
    lost = sum(round(s * n) for s, n in zip(cells.shade, tried, strict=True))
    assert lost == (rows["status"] == "diverged").sum()


def test_vectors_before_an_abort() -> None:
    rng = np.random.default_rng(0)
    updates = rng.integers(0, 1000, 5000)
    norm = 0.05 + 0.001 * updates
    norm[:10], updates[:10] = 15.0, 900
    norm[0], norm[1] = np.inf, np.nan
    frame = pd.DataFrame({"feature": "age", "value": "x", "norm": norm, "updates": updates})
    abort = Abort("run", AbortId("production", 3, 7), 15.0, frame)
    found = abort_vectors([abort])
    assert found is not None
    assert found.findings[0].verdict is Verdict.AGREES
    assert found.charts[0].panels[0].x.high <= 22.5
    few = thinned(frame, 100)
    assert len(few) == 100
    assert few["norm"].isna().any()
    contagious = replace(abort, vectors=frame.assign(norm=14.0))
    other = abort_vectors([contagious])
    assert other is not None
    assert other.findings[0].verdict is Verdict.DISAGREES
    assert abort_vectors([]) is None


def test_aborts_are_chosen_from_all_arms_newest_first(day_run: Run) -> None:
    frame = Study((day_run,)).instances
    chosen = choose_aborts(frame, 4)
    assert [one.arm for one in chosen[:2]] == ["production", "entropic"] or len(
        frame[(frame["arm"] == "entropic") & (frame["status"] == "diverged")]
    ) == 0
    assert all(parse_filename(one.filename) == one for one in chosen)
    assert parse_filename("notes.txt") is None


def test_arms_of_different_lengths_are_compared_where_they_overlap() -> None:
    given = simulated()
    made = [r for r in made_up_records(given, 60) if r.arm == "production" or 10 <= r.cycle < 50]
    run = run_of(given, made)
    pair = Study((run,)).main_pair(run)
    assert pair is not None
    assert list(pair.ours.index) == list(range(10, 50))
    assert len(sections_of(Study((run,)))) >= 6


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: r.model_copy(update={"outcomes": (), "winner": None}),
        lambda r: r.model_copy(update={"norms": None, "served_logloss": None}),
        lambda r: r.model_copy(
            update={
                "outcomes": tuple(replace(o, logloss=math.inf) for o in r.outcomes),
                "served_logloss": math.nan,
                "timings": {},
            }
        ),
    ],
)
@pytest.mark.parametrize("cycles", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_odd_records_are_shown_as_far_as_they_go(
    spoil: Callable[[CycleRecord], CycleRecord], cycles: int, tmp_path: Path
) -> None:
    given = simulated()
    run = run_of(given, [spoil(r) for r in made_up_records(given, cycles)])
    output = Output(str(tmp_path))
    written = write(compute(Loaded((run,), ())), output)
    assert "report.html" in written
    charts = (tmp_path / "report.html").read_text().split('id="charts">')[1].split("</script>")[0]
    assert json.loads(charts)


def test_one_arm_and_no_cycles_are_shown_too() -> None:
    alone = made_up("[{name: only, rule: none}]", cycles=20)
    assert verdict("retained", alone) is None
    empty = run_of(simulated(), [])
    assert [one.key for one in sections_of(Study((empty,)))] == ["bound"]
    beside = sections_of(Study((empty, replace(alone, name="other"))))
    assert len(beside) >= 6


@pytest.mark.slow
def test_runs_that_differ_in_seeds_alone_are_taken_together() -> None:
    kinds = {"loss": {"production": 0.1, "entropic": 0.004}, "lift": {"entropic": 1.0}}
    runs = [replace(made_up(seed=seed, **kinds), name=f"seed-{seed}") for seed in range(4)]
    runs = [
        replace(run, config=run.config.model_copy(update={"seed": seed}))
        for seed, run in enumerate(runs)
    ]
    found = section("seeds", *runs)
    assert found.findings[0].verdict is Verdict.AGREES
    assert len(found.tables[0].rows) == 4
    other = replace(made_up(RULES), name="other")
    assert len(section("seeds", *runs, other).findings) == 1
    assert "seeds" not in {one.key for one in sections_of(Study((*runs[:2], other)))}


def test_the_interval_over_runs_is_students() -> None:
    found = interval_over_runs([1.0, 2.0, 3.0, math.nan])
    assert found.mean == 2.0
    assert found.high - found.mean == pytest.approx(4.303 / math.sqrt(3), abs=1e-3)
    assert not interval_over_runs([1.0, 2.0]).known


def test_arms_can_be_chosen() -> None:
    run = made_up(RULES, cycles=20)
    study = study_of((run,), "naive", "fast")
    pair = study.main_pair(run)
    assert pair is not None
    assert (pair.arm, pair.baseline) == ("fast", "naive")
    assert study.arms[:2] == ("naive", "fast")
    with pytest.raises(InputError, match="--baseline: no run has an arm named 'x'"):
        study_of((run,), "x", None)
    with pytest.raises(InputError, match="--challenger and --baseline must be different"):
        study_of((run,), "naive", "naive")


def test_a_running_mean_keeps_a_constant_and_needs_no_full_window() -> None:
    series = pd.Series([2.0] * 10)
    assert running_mean(series, 5).tolist() == [2.0] * 10
    gap = pd.Series([1.0, np.nan, 3.0])
    assert running_mean(gap, 3).tolist() == [1.0, 2.0, 3.0]


def test_the_report_imports_no_ray() -> None:
    sources = (Path(__file__).parents[2] / "orchestrator" / "report").rglob("*.py")
    assert not [path for path in sources if "import ray" in path.read_text()]
