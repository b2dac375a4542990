"""The plan of the soak test, and the faults that it makes without a cluster."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.lab.faults import FAULTS, plan
from scripts.lab.surroundings import WallClock

READ_CLOCKS = (
    "import datetime, json, time;"
    "print(json.dumps([time.time(), datetime.datetime.now().timestamp(), time.monotonic()]))"
)


def test_a_plan_has_every_fault_in_proportion_and_follows_from_its_seed() -> None:
    names = [fault.name for fault in plan(FAULTS, random.Random(5), 1000)]
    assert names == [fault.name for fault in plan(FAULTS, random.Random(5), 1000)]
    assert len(names) == 1000
    assert set(names) == {fault.name for fault in FAULTS}
    hosts = ("driver killed", "node killed", "link cut", "head killed")
    assert sum(name.startswith(hosts) for name in names) >= 50
    heavy = {fault.name for fault in FAULTS if fault.heavy}
    assert sum(name in heavy for name in names) < 100


def test_a_jump_moves_the_wall_clock_of_python_and_no_other(tmp_path: Path) -> None:
    clock = WallClock(tmp_path)
    if not clock.env:
        pytest.skip("no C compiler")
    said = clock.jump(random.Random(2))
    jump_s = int(said.split()[-2])
    read = [sys.executable, "-c", READ_CLOCKS]
    found = subprocess.run(read, env=os.environ | clock.env, capture_output=True, check=True)
    wall, date, monotonic = json.loads(found.stdout)
    assert abs(jump_s) > 60
    assert wall == pytest.approx(time.time() + jump_s, abs=30)
    assert date == pytest.approx(time.time() + jump_s, abs=30)
    assert monotonic == pytest.approx(time.monotonic(), abs=30)
