"""The winner's rows outlive the node that trained them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.lost_node import CONFIG
from support.runs import bits, go_here

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]


def test_a_node_that_is_lost_with_the_winner_changes_no_bit(tmp_path: Path) -> None:
    go_here(CONFIG, tmp_path / "here")
    env = {**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"}
    command = [sys.executable, "-m", "support.lost_node", str(tmp_path / "lost")]
    subprocess.run(command, env=env, check=True, timeout=300)
    assert bits(tmp_path / "lost", CONFIG) == bits(tmp_path / "here", CONFIG)
