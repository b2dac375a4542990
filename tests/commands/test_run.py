"""The command as a person uses it, in processes of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from orchestrator.cli import holdfast
from orchestrator.commands.run import LAST_S
from orchestrator.storage.lease import hold_lease
from orchestrator.storage.open import open_store
from scripts.lab.unsteady import unsteady
from support.configs import SMALL, small
from support.runs import bits, go_here, records
from support.tensorboard_logs import written_steps

pytestmark = pytest.mark.slow

COLUMNS = "timestamp,click,age,gender,device,campaign,category"
COMMAND = [sys.executable, "-c", "from orchestrator.cli import main; main()"]


def test_ctrl_c_finishes_the_cycle_and_says_how_to_go_on(tmp_path: Path) -> None:
    config, out = tmp_path / "run.yaml", tmp_path / "out"
    config.write_text(SMALL)
    many = ["--set", "cycles=4000", "--set", f"track.tensorboard={tmp_path / 'logs'}"]
    run = subprocess.Popen(
        [*COMMAND, "run", str(config), "--out", str(out), "--json", *many],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    end = time.monotonic() + 200  # kernels may have to be compiled
    while not list(out.glob("journal/entropic/*3.json")) and time.monotonic() < end:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to Ray's processes, too
    output, errors = run.communicate(timeout=90)
    assert run.returncode == 130, errors
    assert errors == ""
    told = [json.loads(line) for line in output.splitlines()]
    assert "to resume: holdfast run" in told[-1]["message"]
    shown = [line["cycle"] for line in told if "cycle" in line]
    assert shown[-1] == len(records(out, "entropic")) - 1
    assert written_steps(tmp_path / "logs" / "out" / "entropic") == sorted(set(shown))
    short = tmp_path / "short"
    cycles = f"cycles={shown[-1] + 1}"
    go_here(small(cycles), short)
    assert bits(out, small()) == bits(short, small())


def test_the_end_says_how_many_rows_were_set_aside(ray_of_two_cores: None, tmp_path: Path) -> None:
    lines = [f"2024-01-01T00:00:{i:02d}Z,{i % 2},20,f,tv,c{i % 3},x" for i in range(60)]
    (tmp_path / "events.csv").write_text("\n".join([COLUMNS, *lines, "soon,1,20,f,tv,c1,x\n"]))
    config, out = tmp_path / "run.yaml", tmp_path / "out"
    files = {"kind": "files", "path": f"{tmp_path}/events.csv", "cut": {"events": 61}}
    source = json.dumps(files | {"max_broken_share": 0.1})
    config.write_text(re.sub("source: {.*?}", f"source: {source}", SMALL, flags=re.DOTALL))
    done = CliRunner().invoke(holdfast, ["run", str(config), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"\n1 row set aside: {out}/quarantine\n" in done.output
    assert len(list((out / "quarantine").iterdir())) == 1


def test_a_second_ctrl_c_ends_a_run_whose_storage_does_not_answer(
    bucket: str, s3_endpoint: str, tmp_path: Path
) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(SMALL)
    command = [*COMMAND, "run", str(config), "--out", bucket, "--json", "--set", "cycles=4000"]
    told = tmp_path / "told"
    with unsteady(s3_endpoint) as storage:
        env = os.environ | {"AWS_ENDPOINT_URL": storage.url}
        with told.open("wb") as file:
            run = subprocess.Popen(command, env=env, stdout=file, stderr=file)
        try:
            wait_for(told, '"cycle": 3')
            storage.away = True
            run.send_signal(signal.SIGINT)
            wait_for(told, "press again to stop at once")
            began = time.monotonic()
            run.send_signal(signal.SIGINT)
            assert run.wait(60) == 130
        finally:
            run.kill()
        assert time.monotonic() - began < 3 * LAST_S
        assert "without the cycle under way; to resume: holdfast" in told.read_text()
        storage.away = False
    cycles = f"cycles={len(records(bucket, 'entropic')) + 1}"
    with hold_lease(open_store(bucket)):  # the one of the killed process is not in the way
        go_here(small(cycles), bucket)
    go_here(small(cycles), tmp_path / "calm")
    assert bits(bucket, small()) == bits(tmp_path / "calm", small())


STUCK = """
import os, signal, threading
from orchestrator.commands import run

class Unread:
    def say(self, message):
        raise BrokenPipeError

run.LAST_S = 0.2
with run._two_stage_stop(Unread()):
    threading.Thread(target=threading.Event().wait).start()
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_second_ctrl_c_ends_what_is_stuck_though_nobody_reads_the_output() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, timeout=60)
    assert done.returncode == 130


def wait_for(file: Path, sign: str) -> None:
    end = time.monotonic() + 200
    while sign not in file.read_text():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_replay_gives_the_recorded_bits(tmp_path: Path) -> None:
    config = small("retention={keep_last: 1}", "arms.1.start_from={arm: production, cycle: 1}",
                   "search.ranges.eta0={low: 0.1, high: 300}")  # fmt: skip
    go_here(config, tmp_path)
    diverged = 0
    for arm, cycle in [("production", 0), ("production", 3), ("entropic", 1), ("entropic", 2)]:
        record = next(r for r in records(tmp_path, arm) if r.cycle == cycle)
        for outcome in record.outcomes[:3]:
            where = ["--cycle", str(cycle), "--instance", str(outcome.instance), "--arm", arm]
            done = run_here("replay", str(tmp_path), *where, "--json")
            found = json.loads(done)
            assert found["same"] is True
            assert found["outcome"]["events_done"] == outcome.events_done
            assert found["points"][-1]["events"] == outcome.events_done
            if outcome.divergence is not None:
                diverged += 1
                last = found["crossings"][-1]
                assert (last["level"], last["event"]) == (1.0, outcome.divergence.event)
    assert diverged > 0
    text = run_here("replay", str(tmp_path), "--cycle", "0", "--instance", "0")
    assert "the same as recorded, bit for bit" in text


def run_here(*arguments: str) -> str:
    from click.testing import CliRunner

    from orchestrator.cli import holdfast as command

    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    return str(done.output)
