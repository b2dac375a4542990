"""What a run writes to standard output: its own lines, whatever happens to its processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.configs import SMALL

pytestmark = pytest.mark.slow
COMMAND = [sys.executable, "-c", "from orchestrator.cli import main; main()"]


def trainers_below(root: int) -> list[int]:
    """The trainer actors among the descendants of a process."""
    parents, found = {}, []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rsplit(")")[-1].split()
            parents[int(folder.name)] = int(after_name[1])
            if b"Trainer" in (folder / "cmdline").read_bytes().split(b"\0")[0]:
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue

    def is_below(pid: int) -> bool:
        return pid == root or (pid in parents and is_below(parents[pid]))

    return [pid for pid in found if is_below(pid)]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_killed_trainer_leaves_no_text_of_ray(tmp_path: Path, as_json: bool) -> None:
    config, out = tmp_path / "run.yaml", tmp_path / "out"
    config.write_text(SMALL)
    command = [*COMMAND, "run", str(config), "--out", str(out), "--set", "cycles=4000"]
    command += ["--json"] if as_json else []
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as run:
        try:
            wait_for_cycle(out, 3)
            os.kill(trainers_below(run.pid)[0], signal.SIGKILL)
            time.sleep(2)  # Ray reports a lost process within about a second
            run.send_signal(signal.SIGINT)
            output, errors = run.communicate(timeout=90)
        finally:
            run.kill()
    assert run.returncode == 130
    assert errors == ""
    for line in output.splitlines():
        assert "\x1b" not in line
        assert re.match(r"\{" if as_json else r"cycle|stop| *\d+\.\d s  ", line)
        if as_json:
            json.loads(line)


def wait_for_cycle(out: Path, cycle: int) -> None:
    end = time.monotonic() + 200  # kernels may have to be compiled
    while not (out / f"journal/entropic/cycle-{cycle:06d}.json").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
