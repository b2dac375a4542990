"""Runs `holdfast` and measures how long its event loop is blocked by the process's own work.

    python -m support.loop_delays FILE serve PLACE …

writes to FILE the seconds that each of many probes had to wait. A probe does what a request for
/health does: it waits for an event, then takes a few turns of the loop. What counts is the work of
this process: the processor time of the loop's own thread, and that of other threads as far as the
loop waited meanwhile (for the interpreter). How busy the machine is with other processes does not.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from orchestrator.cli import main
from orchestrator.serving import listen
from orchestrator.serving.turns import Turns

PAUSE_S = 0.005
TURNS = 4


class Clocks(NamedTuple):
    """Seconds since some moment in the past."""

    wall: float
    process: float
    """The processor time of all threads."""
    loop: float
    """The processor time of the loop's thread."""
    queued: float
    """How long that thread was ready to run and had no processor."""

    @classmethod
    def now(cls) -> "Clocks":
        status = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
        queued = int(status.split()[1]) / 1e9
        return cls(time.monotonic(), time.process_time(), time.thread_time(), queued)

    def blocked_since(self, before: "Clocks", asleep: float) -> float:
        """How long the process kept its loop from turning."""
        wall, process, loop, queued = (b - a for a, b in zip(before, self, strict=True))
        waited = wall - asleep - queued - loop
        return loop + max(min(process - loop, waited), 0.0)


async def probe(file: Path) -> None:
    with file.open("w") as delays:
        while True:
            before, blocked = Clocks.now(), 0.0
            for pause in (PAUSE_S, *[0.0] * TURNS):
                await asyncio.sleep(pause)
                after = Clocks.now()
                blocked += after.blocked_since(before, pause)
                before = after
            delays.write(f"{blocked:.6f}\n")
            delays.flush()


def run(file: Path) -> None:
    tasks = []

    class ProbedTurns(Turns):
        def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
            super().__init__(loop)
            tasks.append(loop.create_task(probe(file)))

    listen.Turns = ProbedTurns  # type: ignore[misc]
    main()


if __name__ == "__main__":
    run(Path(sys.argv.pop(1)))
