"""Format and lint do not depend on what runs, downloads and builds leave in the work tree."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNIPPET = """\
import data
import dist
import pytest
import runs

from orchestrator.cli import main
from support.records import record

print(data, dist, main, pytest, record, runs)
"""


@pytest.mark.parametrize("left", [(), ("runs", "data", "dist")])
@pytest.mark.parametrize("command", [("check", "--no-cache"), ("format", "--check", "--no-cache")])
def test_what_is_left_in_the_tree_changes_nothing(
    tmp_path: Path, left: tuple[str, ...], command: tuple[str, ...]
) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(SNIPPET)
    for folder in left:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "records.py").write_text("not python")
    ruff = [sys.executable, "-m", "ruff", *command, "."]
    done = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
