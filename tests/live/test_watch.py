"""`holdfast watch` on a run under way, in a real browser."""

import http.client
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from divergence.errors import InputError
from orchestrator.cli import holdfast
from orchestrator.live.follow import RunFollower
from orchestrator.live.server import page_server
from orchestrator.storage.open import open_store
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run
from support.small_run import SmallRun

COMMAND = [sys.executable, "-c", "from orchestrator.cli import main; main()", "watch"]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    folder, given = tmp_path / "day", simulated()
    write_run(open_store(str(folder)), given, made_up_records(given, 20))
    return folder


@contextmanager
def watching(run: Path, port: int = 0) -> Iterator[int]:
    """The port on which a process shows the run."""
    options = ["--port", str(port), "--every-s", "0.1"]
    with subprocess.Popen([*COMMAND, str(run), *options], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        found = re.search(r"http://127.0.0.1:(\d+)$", one.stdout.readline())
        assert found
        try:
            yield int(found[1])
        finally:
            one.kill()


def wait(condition: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("not within 30 s")


@pytest.mark.slow
def test_the_page_follows_the_run(tmp_path: Path) -> None:
    from selenium.webdriver.common.by import By

    from support.browser import chromium, emulate

    folder = tmp_path / "run"
    run = SmallRun(folder)
    run.play()
    with chromium(tmp_path / "profile") as browser:

        def strip() -> str:
            return str(browser.find_element(By.ID, "live").text)

        def retained(script: str) -> Any:
            found = "const chart = charts.find((c) => c.data.key === 'retained'); "
            return browser.execute_script(found + script)

        def cycles_drawn() -> int:
            return int(retained("return chart ? chart.data.panels[0].x.high : 0"))

        with watching(folder) as port:
            emulate(browser, 1200)
            browser.get(f"http://127.0.0.1:{port}/")
            wait(lambda: "production 0 2 of 2" in strip())
            run.play()
            run.play()  # each time by a new driver
            wait(lambda: "production 2 2 of 2" in strip() and cycles_drawn() >= 2)
            details = browser.find_element(By.CSS_SELECTOR, "main details summary")
            details.click()
            retained("chart.zoomTo(chart.panels[0], {x: [1, 2], y: [0, 1]})")
            run.play()
            wait(lambda: "production 3 2 of 2" in strip() and cycles_drawn() >= 3)
            assert browser.find_element(By.CSS_SELECTOR, "main details").get_attribute("open")
            assert retained("return chart.panels[0].zoom.x") == [1, 2]
        wait(lambda: "No answer from holdfast watch" in strip())
        with watching(folder, port):
            run.play()
            wait(lambda: "production 4 2 of 2" in strip())
        errors = [entry for entry in browser.get_log("browser") if "favicon" not in str(entry)]
        assert [e for e in errors if "ERR_CONNECTION_REFUSED" not in str(e)] == []


def ask(port: int, path: str, host: str = "localhost:1") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"host": host})
    answer = connection.getresponse()
    read = answer.status, answer.read()
    connection.close()
    return read


def test_other_names_and_paths_are_refused(day: Path) -> None:
    with (
        RunFollower(open_store(str(day)), 60, None, None) as follower,
        page_server(0, lambda: follower.shown) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = int(server.server_address[1])
        assert ask(port, "/", "evil.example:80")[0] == 421
        assert ask(port, "/config.yaml")[0] == 404
        assert b"connect-src 'self'" in ask(port, "/")[1]
        state = json.loads(ask(port, "/state")[1])
        assert [row[0] for row in state["arms"]] == ["production", "entropic"]
        with pytest.raises(InputError, match=f"--port {port}: cannot listen"):
            page_server(port, lambda: follower.shown)
        server.shutdown()


def test_a_run_that_cannot_be_read_later_keeps_its_page(day: Path, tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.symlink_to(day)
    with RunFollower(open_store(str(place)), 0.05, None, None) as follower:
        page = follower.shown.page
        place.unlink()
        state = wait(lambda: (s := json.loads(follower.shown.state))["state"] == "unknown" and s)
        assert "config.yaml" in state["reasons"][0]
        assert follower.shown.page == page
        place.symlink_to(day)
        wait(lambda: json.loads(follower.shown.state)["state"] != "unknown")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(holdfast, ["watch", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert str(tmp_path) in str(result.exception)
