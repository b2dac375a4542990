from pathlib import Path

import pytest
from runs import SmallRun


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path / "run")
