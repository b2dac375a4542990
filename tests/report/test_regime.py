"""The regime map: where a run lies on it, and what the report says about that."""

import math
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli import holdfast
from orchestrator.config.schema import RunConfig
from orchestrator.report.load import Run, load_run
from orchestrator.report.regime.place import Distance, locate, served_gains, width_of
from orchestrator.report.regime.table import COLUMNS, RegimeMap, committed_map, read_map
from orchestrator.report.sections.regime import regime
from orchestrator.report.study import Study
from orchestrator.storage.open import open_store
from scripts.results.readme import RESULTS, ROOT
from scripts.results.regime import SIGNALS, WIDTHS, MarketRun, _markdown, _train, rows_of
from support.configs import config, simulated
from support.made_up_runs import made_up_records
from support.small_run import SmallRun

SMALL = """
seed: 3
source: {kind: simulator, preset: stormy, events_per_cycle: 300, users: 2000, ads: 100}
features: {user: [age, gender, device], ad: [campaign, category]}
search: {instances: 2, ranges: {eta0: 0.3, alpha: 3, beta: 0.5}, sampler: random}
arms: [{name: production, rule: {name: l2, lam: 0.001}}]
"""
SETS = (
    "features={user: [age, gender, device], ad: [campaign, category]}",
    "arms=[{name: l2, rule: {name: l2, lam: 0.001}}]",
    "source.users=2000",
    "source.ads=100",
    "source.events_per_cycle=300",
    "search.instances=2",
    "cycles=12",
)


def made_up_map(*predictabilities: float) -> RegimeMap:
    """Markets with draws x/÷3, 10 and 30, in which l2 loses more the wider they are."""
    lines = [",".join(COLUMNS)]
    for signal, value in enumerate(predictabilities, 1):
        for width, lost in ((3, 0.02), (10, 0.14), (30, 0.3)):
            for seed, more in ((1, 0.01), (2, -0.01)):
                for rule, share, lift in (
                    ("l2", lost, 0),
                    ("none", 0.5, -1),
                    ("entropic", 0.03, 1),
                ):
                    shares = f"{value + more},{1 - share + more},{1 - share},0.1,{value}"
                    lines.append(f"{signal},{width},{rule},{seed},48,20000,16,{shares},{lift}")
    return read_map("\n".join(lines))


MAP = made_up_map(0.05, 0.21, 0.3)


def test_a_map_is_the_mean_over_its_seeds() -> None:
    assert MAP.predictabilities == pytest.approx([0.05, 0.21, 0.3])
    assert MAP.widths == [3, 10, 30]
    assert MAP.rules == ("l2", "none", "entropic")
    assert MAP.markets[1][1].results["l2"].lost == pytest.approx(0.14)
    assert MAP.markets[1][1].served_best() == "entropic served best (+1.0% over l2)"


@pytest.mark.parametrize(
    ("predictability", "width", "row", "column", "distance"),
    [
        (0.21, 10, 1, 1, Distance.IN),
        (0.20, 11, 1, 1, Distance.IN),
        (0.14, 10, 1, 1, Distance.BETWEEN),
        (0.21, 17, 1, 1, Distance.BETWEEN),
        (0.32, 40, 2, 2, Distance.BETWEEN),
        (0.45, 10, 2, 1, Distance.OUTSIDE),
        (-0.2, 10, 0, 1, Distance.OUTSIDE),
        (0.21, 1, 1, 0, Distance.OUTSIDE),
        (0.21, 1e30, 1, 2, Distance.OUTSIDE),
    ],
)
def test_the_nearest_market_and_how_near_it_is(
    predictability: float, width: float, row: int, column: int, distance: Distance
) -> None:
    place = locate(MAP, predictability, width)
    assert place.market is MAP.markets[row][column]
    assert place.distance is distance


@pytest.mark.parametrize(
    ("search", "width"),
    [
        ("{}", 30),
        ("{sampler: {kind: adaptive, spread: {eta0: 30, alpha: 3}}}", math.sqrt(90)),
        ("{sampler: random}", math.sqrt(1000)),
        ("{sampler: random, ranges: {eta0: {low: 1, high: 100}, alpha: 1}}", math.sqrt(10)),
        ("{ranges: {eta0: {low: 1, high: 4}, alpha: {choice: [1, 4]}}}", 4),
        ("{instances: 9, sampler: grid, ranges: {eta0: 1, alpha: 0}}", 1),
        ("{sampler: random, ranges: {eta0: 1, alpha: {low: 0, high: 1, log: false}}}", 19**0.25),
    ],
)
def test_the_width_of_the_draws_comes_from_the_config(search: str, width: float) -> None:
    given = config(f"source: toy\nsearch: {search}\narms: [{{name: a, rule: l2}}]\n")
    assert width_of(given) == pytest.approx(width)


def study_of(given: RunConfig, cycles: int) -> Study:
    made = made_up_records(given, cycles, loss={"production": 0.2})
    arms = {arm.name: tuple(r for r in made if r.arm == arm.name) for arm in given.arms}
    return Study((Run("day", "day", given, arms, ()),))


def line(known: RegimeMap, cycles: int = 40) -> str:
    section = regime(study_of(simulated(), cycles), known)
    [finding] = section.findings
    assert finding.verdict is None
    return finding.text


def test_the_line_tells_what_the_map_says_where_the_run_lies() -> None:
    study = study_of(simulated(), 40)
    best = max(served_gains(study, study.runs[0]).values())
    inside = line(made_up_map(0.05, best))
    assert f"served log-loss {best:.1%} below that of a constant CTR, draws x/÷30." in inside
    assert "In simulated markets like this, l2 lost 30% of its instances and entropic 3%" in inside
    assert "entropic served best (+1.0% over l2). Lost here: production 14%, entropic 1%." in inside
    between = line(made_up_map(0.05, best + 0.06))
    assert f"In the nearest simulated market (predictability {best + 0.06:.0%}, draws" in between
    outside = line(made_up_map(0.02, 0.05))
    assert "outside the map (2% to 5%, x/÷3 to x/÷30), and its nearest market" in outside
    assert line(MAP, cycles=5) == "Regime map: too few cycles to tell where this run lies."


def test_every_rule_of_the_map_has_a_panel_with_the_run_on_it() -> None:
    [chart] = regime(study_of(simulated(), 40), MAP).charts
    assert [panel.title for panel in chart.panels] == ["l2 (production)", "none", "entropic"]
    cells, dot = chart.panels[2].marks
    assert cells.labels[0] == "3%\n+1.0%"  # type: ignore[union-attr]
    assert len(dot.x) == 1  # type: ignore[union-attr]


def test_the_committed_map_is_complete_and_on_the_results_page() -> None:
    known = committed_map()
    assert known.widths == list(WIDTHS)
    assert len(known.markets) == len(SIGNALS)
    assert known.predictabilities == sorted(set(known.predictabilities))
    for market in (market for row in known.markets for market in row):
        assert set(market.results) == {arm.name for arm in MarketRun(1, 3, 1, ()).config().arms}
        assert market.results["l2"].lift == 0
    page = (ROOT / RESULTS).read_text(encoding="utf-8")
    assert "\n".join(_markdown(known)) in page


@pytest.mark.slow
def test_a_market_is_run_and_becomes_rows(tmp_path: Path) -> None:
    one = MarketRun(0.5, 30, 101, SETS)
    made = one.config()
    assert made.source.model_dump()["interaction_sd"] == 1.0
    assert made.search.sampler.spread.alpha == 30  # type: ignore[union-attr]
    _train((one, str(tmp_path / one.name)))
    [row] = rows_of(one, tmp_path)
    assert set(row) == set(COLUMNS)
    assert (row["cycles"], row["rule"], row["seed"], row["lift"]) == (12, "l2", 101, 0)
    assert row["gain"] == row["predictability"]
    _train((one, str(tmp_path / one.name)))  # a finished run is left as it is
    assert rows_of(one, tmp_path) == [row]


@pytest.mark.slow
def test_the_report_of_a_real_run_says_where_it_lies(tmp_path: Path) -> None:
    small = SmallRun(tmp_path / "run", SMALL)
    for _ in range(12):
        small.play()
    done = CliRunner().invoke(holdfast, ["report", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    loaded = load_run(open_store(str(tmp_path / "run")), "run")
    [gain] = served_gains(Study((loaded,)), loaded).values()
    where = f"served log-loss {abs(gain):.1%} {'below' if gain >= 0 else 'above'}"
    assert where in done.output.replace("\n", " ")
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page.count(where) >= 2  # below the title and in the section
    assert 'id="chart-regime-map"' in page
    assert (tmp_path / "run" / "figures" / "regime-map.svg").exists()
