"""`holdfast run`: train, cycle after cycle."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from orchestrator.commands.options import config_argument, json_option, set_option
from orchestrator.config.file import load_config
from orchestrator.journal.run_folder import must_hold_run, prepare
from orchestrator.pool.ray_env import local_environment
from orchestrator.publish.background import publishing
from orchestrator.storage.lease import hold_lease
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store
from orchestrator.watch.console import View, open_view
from orchestrator.watch.logs import logging_to

LAST_S = 10.0
"""How long the second Ctrl-C waits for what is under way, such as storage that does not answer."""


@click.command("run", epilog="Example: holdfast run configs/quickstart.yaml --out runs/quickstart")
@config_argument
@click.option("--out", metavar="DIR", help="Run folder or URI. Default: runs/<name of CONFIG>.")
@set_option
@click.option("--address", metavar="HOST:PORT", help="A Ray cluster that is up (auto: find it).")
@click.option("--ship", is_flag=True, help="Send this code to the cluster's nodes.")
@click.option("--resume", is_flag=True, help="Go on with a run; an error where DIR holds none.")
@json_option
@click.option("--log", metavar="FILE", help="Append JSON lines on lost processes etc. (-: stderr).")
@click.option("--verbose", is_flag=True, help="Show what Ray says, too.")
def command(
    config_path: str,
    out: str | None,
    assignments: tuple[str, ...],
    address: str | None,
    ship: bool,
    resume: bool,
    as_json: bool,
    log: str | None,
    verbose: bool,
) -> None:
    """Run CONFIG: every cycle many instances, the best of which is the next cycle's warm start.

    The same command again goes on where the run stands. Ctrl-C finishes the cycle under way;
    a second one stops at once and loses that cycle.
    """
    config = load_config(config_path, assignments)
    folder = open_store(out or f"runs/{Path(config_path).stem}")
    if resume:
        must_hold_run(folder)
    sets = [part for assignment in assignments for part in ("--set", assignment)]
    where = [*(["--address", address] if address else []), *(["--ship"] if ship else [])]
    again = shlex.join(["holdfast", "run", config_path, "--out", folder.uri, *sets, *where])
    view = open_view(sys.stdout, as_json, config.cycles)
    actors = None if config.actors == "auto" else config.actors
    with logging_to(log), hold_lease(folder, view.say) as store:
        start = prepare(store, config)
        if config.cycles is not None and start.cycle >= config.cycles:
            for message in (*start.messages, _over("complete", start.cycle, store)):
                view.say(message)
            return
        if address is None:
            local_environment()
        from orchestrator.loop.run import Ending, run
        from orchestrator.pool.ray_start import Cluster, started_ray
        from orchestrator.watch.metrics import (
            MeteredView,  # slow to load, and reads the environment
        )

        cluster = Cluster(address, ship) if address else None
        with started_ray(cluster, actors, verbose) as room, _two_stage_stop(view) as stop:
            live = config.source.live
            told = publishing(view, config, store, start.records.values())
            with MeteredView(told, store.uri, live) as metered:
                try:
                    ended = run(config, store, start, metered, room(), stop=stop, room=room)
                except KeyboardInterrupt:
                    view.say(f"stopped at once, without the cycle under way; to go on: {again}")
                    raise
    if ended.ending is Ending.STOPPED:
        view.say(f"stopped before cycle {ended.cycle}; to go on: {again} --resume")
        sys.exit(130)
    view.say(_over(ended.ending.value, ended.cycle, store))


def _over(how: str, cycles: int, store: Store) -> str:
    return f"{how} with {cycles} cycles in {store.uri}"


@contextmanager
def _two_stage_stop(view: View) -> Iterator[threading.Event]:
    """The first Ctrl-C (or SIGTERM) sets the event, the second raises KeyboardInterrupt.

    A process that has not ended soon after the second one is ended.
    """
    stop, at_once, over = threading.Event(), threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            at_once.set()
            raise KeyboardInterrupt
        stop.set()

    def tell() -> None:  # not in the handler, which may have interrupted another print
        stop.wait()
        if not over.is_set():
            view.say("stopping after this cycle's commit; once more to stop at once")

    def end() -> None:  # nor in `tell`, whose reader may be gone
        at_once.wait()
        time.sleep(LAST_S)
        os._exit(130)

    for watch in (tell, end):
        threading.Thread(target=watch, daemon=True).start()
    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        over.set()
        stop.set()
