"""A run without a cluster has its own Ray, which ends with the process, also if that is killed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ENDS_WITHIN_S = 45.0
"""Usually 3, on a busy machine more. Ray's own time limit is 60."""
DRIVER = """
from orchestrator.pool.ray_env import local_environment
local_environment()
import ray
from orchestrator.pool.ray_start import started_ray
with started_ray(None, 1, False):
    print("started", flush=True)
    input()
"""


def below(root: int) -> set[str]:
    """The descendants of a process."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[status.parent.name] = status.read_text().rsplit(")")[-1].split()[1]
        except OSError:  # it has ended
            continue
    found = {str(root)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {str(root)}


def name_of(pid: str) -> str:
    """Empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    except OSError:
        return ""


def test_the_own_ray_starts_beside_another_and_ends_with_its_driver() -> None:
    """Ray finds another cluster in RAY_ADDRESS, and in a file below /tmp that all users share."""
    pipe, another = subprocess.PIPE, os.environ | {"RAY_ADDRESS": "127.0.0.1:6379"}
    command = [sys.executable, "-c", DRIVER]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=another) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"started\n"
        started = below(driver.pid)
        assert sum("Agent" in name_of(pid) for pid in started) == 2
        driver.kill()
    end = time.monotonic() + ENDS_WITHIN_S
    while left := [name for pid in started if (name := name_of(pid))]:
        assert time.monotonic() < end, left
        time.sleep(0.1)
