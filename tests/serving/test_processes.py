"""Several serving processes on one port."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.serving.limits import DEFAULT, ServeOptions
from orchestrator.serving.listen import bound_sockets
from orchestrator.serving.processes import SHARED_COUNTERS, serve_process
from scripts.bench.serve import MadeUpPlace
from support.service import Service, asked

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("place"), "--processes", "2")
    yield made
    made.stop()


def children(served: Service) -> set[int]:
    """The serving processes; the tracker of Python's resources is a child, too."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(served.process.pid)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return {int(line.split()[0]) for line in found.splitlines() if "spawn_main" in line}


def has_its_model(pid: int) -> bool:
    """Whether a process has loaded its model: its counters come after that."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    [folder] = [v.partition(b"=")[2] for v in variables if v.startswith(SHARED_COUNTERS.encode())]
    return any(Path(folder.decode()).glob(f"*_{pid}.db"))


def test_both_answer_and_count_together(served: Service) -> None:
    assert len(children(served)) == 2
    for _ in range(20):
        assert served.ask(asked())[0] == 200
    assert {served.answered() for _ in range(10)} == {20}
    kinds = re.findall("^# TYPE .*", served.metrics(), re.MULTILINE)
    assert "# TYPE holdfast_model_version gauge" in kinds
    assert len(kinds) == len(set(kinds))  # else Prometheus refuses the page


def test_a_process_that_dies_is_replaced(served: Service) -> None:
    before = children(served)
    killed = min(before)
    subprocess.run(["kill", "-9", str(killed)], check=True)
    for _ in range(600):
        now = children(served)
        if len(now) == 2 and killed not in now:
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"not replaced: {now}")
    assert served.ask(asked())[0] == 200


def test_a_process_that_cannot_read_its_model_again_does_not_end_the_others(
    served: Service,
) -> None:
    before = children(served)
    while not all(map(has_its_model, before)):
        time.sleep(0.05)
    moved, seen = served.place.rename(served.place.with_name("moved")), set(before)
    subprocess.run(["kill", "-9", str(min(before))], check=True)
    for _ in range(1200):
        seen |= children(served)
        if len(seen - before) == 2:  # the first has failed: there is nothing to serve
            break
        time.sleep(0.05)
    else:
        raise AssertionError(f"not started again: {seen - before}")
    assert served.process.poll() is None
    assert max(before) in children(served)
    moved.rename(served.place)
    assert served.ask(asked())[0] == 200


def test_a_port_in_use_is_refused_whatever_the_number() -> None:
    with bound_sockets("127.0.0.1", 0, 3) as sockets:
        for each in sockets:
            each.listen()
        [port] = {each.getsockname()[1] for each in sockets}
        for count in (1, 2):
            with (
                pytest.raises(InputError, match=re.escape("Address already in use")),
                bound_sockets("127.0.0.1", port, count),
            ):
                pass


def test_a_port_that_is_taken_while_the_model_loads_is_one_line(tmp_path: Path) -> None:
    MadeUpPlace(tmp_path, vectors=40)
    options = ServeOptions(str(tmp_path), None, "127.0.0.1", 2.0, None, DEFAULT)
    with bound_sockets("127.0.0.1", 0, 1) as [first]:
        port = first.getsockname()[1]
        with bound_sockets("127.0.0.1", port, 1) as [second]:  # nobody listens yet
            first.listen()
            with pytest.raises(InputError, match=f"--port {port}: Address already in use"):
                serve_process(options, second)
