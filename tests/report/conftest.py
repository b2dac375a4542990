from pathlib import Path

import pytest
from made_up import config, records, write_run

from orchestrator.report.load import Run, load_run
from orchestrator.storage.open import open_store


@pytest.fixture(scope="session")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a day in which the entropic rule does what the paper says."""
    folder = tmp_path_factory.mktemp("runs") / "day"
    given = config()
    losses, lifts = {"production": 0.3, "entropic": 0.001}, {"entropic": 1.0}
    write_run(open_store(str(folder)), given, records(given, 96, loss=losses, lift=lifts))
    return folder


@pytest.fixture(scope="session")
def day_run(day: Path) -> Run:
    return load_run(open_store(str(day)), "day")
