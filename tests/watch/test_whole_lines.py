"""Lines of a run stay whole when several threads write them."""

import io
import json
import threading
import time

import pytest

from orchestrator.watch.console import open_view


class SlowStream(io.StringIO):
    """Lets other threads run between any two writes."""

    def write(self, text: str) -> int:
        done = super().write(text)
        time.sleep(0.001)
        return done


@pytest.mark.parametrize("as_json", [True, False])
def test_lines_of_two_threads_are_whole(as_json: bool) -> None:
    stream = SlowStream()
    view = open_view(stream, as_json, cycles=None)

    def talk(name: str) -> None:
        for _ in range(50):
            view.say(name)

    threads = [threading.Thread(target=talk, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = stream.getvalue().splitlines()
    said = [json.loads(line)["message"] if as_json else line for line in lines]
    assert sorted(said) == ["one"] * 50 + ["two"] * 50
