"""The configs that reproduce the paper: read, and of the shape that the report looks for."""

from functools import cache
from pathlib import Path

import pytest

from orchestrator.config.file import load_config
from orchestrator.config.schema import RunConfig
from orchestrator.report.assemble import sections_of
from orchestrator.report.load import Run
from orchestrator.report.study import Study
from scripts.results.experiments import EXPERIMENTS, planned
from support.made_up_runs import made_up_records

CONFIGS = Path(__file__).parents[2] / "configs"
NAMES = (
    "paper-week",
    "paper-lift",
    "entropic-vs-euclidean",
    "rules",
    "rho-search",
    "paper-movielens",
)


def config(name: str) -> RunConfig:
    return load_config(str(CONFIGS / f"{name}.yaml"))


@cache
def report_of(name: str) -> set[str]:
    """The charts of a short run of this config."""
    given = config(name)
    made = made_up_records(given, given.arms[1].first_cycle + 16)
    arms = {arm.name: tuple(r for r in made if r.arm == arm.name) for arm in given.arms}
    study = Study((Run(name, name, given, arms, ()),))
    return {chart.key for section in sections_of(study) for chart in section.charts}


@pytest.mark.parametrize("name", NAMES)
def test_production_is_what_all_are_compared_with(name: str) -> None:
    given = config(name)
    assert (given.arms[0].name, given.arms[0].rule.name) == ("production", "l2")
    starts = {arm.start_from for arm in given.arms[1:]}
    assert len(starts) == 1, "every arm begins with the same model"
    assert {"retained", "norms", "lift", "rho0"} <= report_of(name)


def test_sizes_are_as_in_production() -> None:
    week, lift = config("paper-week"), config("paper-lift")
    for given, days in ((week, 7), (lift, 14)):
        start = given.arms[1].first_cycle
        assert given.cycles == start + days * 96
    assert week.search.instances >= 40
    assert week.source.model_dump()["events_per_cycle"] >= 20_000


def test_every_planned_run_has_a_sound_config_of_its_own() -> None:
    plan = planned()
    assert len({run.name for run in plan}) == len(plan)
    assert len(plan) == sum(len(one.seeds) for one in EXPERIMENTS) >= 3 * len(EXPERIMENTS)
    for run in plan:
        assert run.name.endswith(f"-{run.config.seed}")
        assert getattr(run.config.source, "seed", run.config.seed) == run.config.seed


def test_all_runs_together_take_less_than_two_and_a_half_hours_on_two_cores() -> None:
    assert sum(run.seconds(event_s=1e-6, cores=2) for run in planned()) < 2.5 * 3600


def test_sweeps_are_found() -> None:
    assert "entropic-euclidean" in report_of("entropic-vs-euclidean")
    assert "k-search" in report_of("rho-search")
    assert "k-search" not in report_of("rules")
