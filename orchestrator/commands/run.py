"""`holdfast run`: train, cycle after cycle."""

import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from orchestrator.commands.options import config_argument, json_option, set_option
from orchestrator.config_file import load_config
from orchestrator.publish.background import publishing
from orchestrator.ray_env import local_environment
from orchestrator.run_folder import prepare
from orchestrator.store import open_store
from orchestrator.view import View, open_view


@click.command("run", epilog="Example: holdfast run configs/quickstart.yaml --out runs/quickstart")
@config_argument
@click.option("--out", metavar="DIR", help="Run folder or URI. Default: runs/<name of CONFIG>.")
@set_option
@click.option("--address", metavar="HOST:PORT", help="A Ray cluster that is up (auto: find it).")
@click.option("--resume", is_flag=True, help="Go on with a run; an error where DIR holds none.")
@json_option
@click.option("--verbose", is_flag=True, help="Show what Ray says, too.")
def command(
    config_path: str,
    out: str | None,
    assignments: tuple[str, ...],
    address: str | None,
    resume: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run CONFIG: every cycle many instances, the best of which is the next cycle's warm start.

    The same command again goes on where the run stands. Ctrl-C finishes the cycle under way;
    a second one stops at once and loses that cycle.
    """
    config = load_config(config_path, assignments)
    store = open_store(out or f"runs/{Path(config_path).stem}")
    start = prepare(store, config, must_exist=resume)
    if config.cycles is not None and start.cycle >= config.cycles:
        for message in start.messages:
            click.echo(message)
        click.echo(f"complete with {start.cycle} cycles in {store.uri}")
        return
    if address is None:
        local_environment()
    from orchestrator.ray_start import started_ray  # slow to load, and reads the environment
    from orchestrator.run import Ending, run

    view = open_view(sys.stdout, as_json, config.cycles)
    view = publishing(view, config, store, start.records.values())
    actors = None if config.actors == "auto" else config.actors
    with started_ray(address, actors, verbose) as room, view, _two_stage_stop(view) as stop:
        ended = run(config, store, start, view, room, stop=stop)
    sets = [part for assignment in assignments for part in ("--set", assignment)]
    where = ["--address", address] if address else []
    again = shlex.join(["holdfast", "run", config_path, "--out", store.uri, *sets, *where])
    if ended.ending is Ending.STOPPED:
        view.say(f"stopped before cycle {ended.cycle}; to go on: {again} --resume")
        sys.exit(130)
    view.say(f"{ended.ending.value} with {ended.cycle} cycles in {store.uri}")


@contextmanager
def _two_stage_stop(view: View) -> Iterator[threading.Event]:
    """The first Ctrl-C (or SIGTERM) sets the event, the second raises KeyboardInterrupt."""
    stop, over = threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    def tell() -> None:  # not in the handler, which may have interrupted another print
        stop.wait()
        if not over.is_set():
            view.say("stopping after this cycle's commit; once more to stop at once")

    threading.Thread(target=tell, daemon=True).start()
    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        over.set()
        stop.set()
