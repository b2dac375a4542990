"""A serving process that follows a published place, and a client that keeps asking it."""

import http.client
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from orchestrator.publish.origin import open_origin
from orchestrator.publish.place import newest_version
from orchestrator.serving.scorer import Scorer
from orchestrator.storage.open import open_store
from scripts.lab.cluster import ROOT, wait_for

ASK_EVERY_S = 0.1
POLL_S = 0.25
USER = {"age": "25-34", "gender": "female", "geo": "geo-1", "device": "mobile", "hour": 9,
        "last_category": None, "interests": {"topic-1": 0.7, "topic-4": 0.3}}  # fmt: skip


class WatchedService:
    """`holdfast serve`, which must always answer and never go back to an older version."""

    def __init__(self, place: str, log: Path) -> None:
        self._place = place
        command = [sys.executable, "-m", "orchestrator", "serve", place, "--port", "0"]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*command, "--poll-s", str(POLL_S)], cwd=ROOT, stdout=subprocess.PIPE, stderr=file
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        self._address = line.strip().rpartition("http://")[2]
        self._ads = [ad_of(campaign) for campaign in range(8)]
        self.answers, self.slowest_s, self.versions, self.failure = 0, 0.0, set[int](), ""
        self._over = threading.Event()
        self._client = threading.Thread(target=self._keep_asking, daemon=True)
        self._client.start()

    def check(self) -> None:
        """AssertionError where an answer was missing or wrong so far."""
        assert not self.failure, f"the serving process failed: {self.failure}"

    def finish(self, run: str, arm: str) -> str:
        """Wait for the newest version and compare its scores with the journal's; the verdict."""
        newest = newest_version(open_store(self._place))
        assert newest is not None
        wait_for(lambda: self.failure != "" or newest.number in self.versions, 30)
        self._over.set()
        self._client.join(30)
        self.check()
        journal = Scorer(open_origin(run, arm))
        assert newest.cycle == journal.current.version.cycle, "the last champion is not published"
        files = [file.sha256 for file in journal.current.version.files]
        assert [file.sha256 for file in newest.files] == files, "published files differ"
        served = self._request()["pctr"]
        assert served == journal.score(USER, self._ads).pctr.tolist(), "served scores differ"
        return (
            f"Serving followed through {len(self.versions)} versions, answered {self.answers} of "
            f"{self.answers} requests (the slowest in {1000 * self.slowest_s:.0f} ms), and ended "
            "with the bits of the journal."
        )

    def close(self) -> None:
        """End the process."""
        self._over.set()
        self.process.terminate()
        self.process.wait(30)

    def _keep_asking(self) -> None:
        version = -1
        while not self._over.wait(ASK_EVERY_S):
            began = time.monotonic()
            try:
                answer = self._request()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.failure = f"no answer: {error!r}"
                return
            if answer["version"] < version:
                self.failure = f"version {answer['version']} after {version}"
                return
            version = answer["version"]
            self.versions.add(version)
            self.answers += 1
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _request(self) -> Any:
        connection = http.client.HTTPConnection(self._address, timeout=10)
        body = json.dumps({"user": USER, "ads": self._ads})
        connection.request("POST", "/v1/score", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        if response.status != 200 or not all(map(math.isfinite, answer["pctr"])):
            raise ValueError(f"{response.status} {answer}")
        return answer


def ad_of(campaign: int) -> dict[str, str]:
    """An ad of the simulator."""
    return {
        "creative": f"c{campaign}.0/1",
        "campaign": f"c{campaign}.0",
        "advertiser": f"advertiser-{campaign}",
        "category": f"category-{campaign % 4}",
    }
