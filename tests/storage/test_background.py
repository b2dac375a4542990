"""Calls in a thread that may hang for good."""

import subprocess
import sys
import time
from concurrent.futures import CancelledError
from threading import Event

import pytest

from orchestrator.storage.background import BackgroundThread


def test_calls_run_in_order_and_errors_are_the_callers() -> None:
    thread, seen = BackgroundThread("test"), []
    calls = [thread.submit(lambda i=i: seen.append(i)) for i in range(5)]  # type: ignore[misc]
    with pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 // 0).result(10)
    assert seen == [0, 1, 2, 3, 4]
    assert all(call.done() for call in calls)
    thread.stop()


def test_what_has_not_begun_is_cancelled() -> None:
    thread, begun, release = BackgroundThread("test"), Event(), Event()
    thread.submit(begun.set)
    running, waiting = thread.submit(release.wait), thread.submit(release.wait)
    assert begun.wait(10)
    while not running.running():
        time.sleep(0.01)
    thread.stop()
    release.set()
    assert running.result(10)
    with pytest.raises(CancelledError):
        waiting.result(10)


HANGS = """
from threading import Event
from orchestrator.config.schema import Retention
from orchestrator.loop import committer
from orchestrator.loop.committer import Committer
committer.COMMIT_S = 0.2
class Hanging(Committer):
    def _write(self, cycle):
        Event().wait()
class Nowhere:
    uri = "nowhere"
with Hanging(Nowhere(), Retention()) as commits:
    commits.hand_over([1])
"""


@pytest.mark.slow
def test_a_process_ends_though_its_storage_hangs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=60
    )
    assert "was given up: is the storage reachable?" in ended.stderr
    assert ended.returncode == 1
