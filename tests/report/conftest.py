from pathlib import Path

import pytest

from orchestrator.report.load import Run, load_run
from orchestrator.storage.open import open_store
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a day in which the entropic rule does what the paper says."""
    folder = tmp_path_factory.mktemp("runs") / "day"
    given = simulated()
    losses, lifts = {"production": 0.3, "entropic": 0.001}, {"entropic": 1.0}
    write_run(open_store(str(folder)), given, made_up_records(given, 96, loss=losses, lift=lifts))
    return folder


@pytest.fixture(scope="session")
def day_run(day: Path) -> Run:
    return load_run(open_store(str(day)), "day")
