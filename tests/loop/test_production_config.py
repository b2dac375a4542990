"""The recommended production config, and the rule of a config that names none."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from orchestrator.config.file import config_text, load_config, read_config
from orchestrator.config.schema import LineagesSelect, config_hash
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import Ending, run
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.source import Simulator
from orchestrator.storage.open import open_store
from support.runs import records
from trainer.outcome import Status

PRODUCTION = str(Path(__file__).parents[2] / "configs/production.yaml")


def test_it_recommends_holdfast_with_lines() -> None:
    config = load_config(PRODUCTION)
    (arm,) = config.arms
    assert arm.rule.name == "holdfast"
    assert isinstance(config.search.select, LineagesSelect)
    assert config.serve.mean_of == 4
    assert config.publish is not None
    assert config.deadline_s is not None
    assert config.deadline_s < 900  # of a cycle of 15 minutes


def test_holdfast_is_the_rule_of_a_config_that_names_none() -> None:
    named, unnamed = (
        read_config(f"source: toy\narms: [{{name: a{rule}}}]\n", "run.yaml")
        for rule in (", rule: holdfast", "")
    )
    assert config_hash(named) == config_hash(unnamed)
    assert "name: holdfast" in config_text(unnamed)  # a run folder says which rule it has


@pytest.mark.slow  # compiles
def test_it_follows_a_folder_for_a_few_cycles(tmp_path: Path) -> None:
    market = Simulator(SimulatorConfig(seed=3, events_per_cycle=300, users=2000, ads=100))
    folder = tmp_path / "events"
    folder.mkdir()
    for cycle in range(4):
        pq.write_table(market.events(cycle).table, folder / f"{cycle:04}.parquet")
    (folder / "_DONE").touch()
    sets = (f"source.path={folder}", "source.settle_s=0", "source.poll_s=0.01",
            f"publish.to={tmp_path}/published", "search.instances=4")  # fmt: skip
    config, store = load_config(PRODUCTION, sets), open_store(str(tmp_path / "run"))
    ended = run(config, store, prepare(store, config), [], LocalLinePool)
    assert (ended.ending, ended.cycle) == (Ending.STREAM_ENDED, 4)
    outcomes = [o for record in records(tmp_path / "run", "production") for o in record.outcomes]
    assert [o.status for o in outcomes] == [Status.RETAINED] * 16
