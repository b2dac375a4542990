"""`holdfast run`: train, cycle after cycle."""

import os
import shlex
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from divergence import own_code
from orchestrator.commands.options import code_option, config_argument, json_option, set_option
from orchestrator.config.file import load_config
from orchestrator.config.schema import LineagesSelect, RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.journal.run_folder import ResumePoint, prepare, require_run
from orchestrator.pool.ray_env import Cluster, local_environment
from orchestrator.publish.background import BackgroundPublisher, open_publisher
from orchestrator.storage.lease import hold_lease
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store
from orchestrator.validation.extras import require_library
from orchestrator.validation.yaml import shown_assignment
from orchestrator.watch.console import View, open_view
from orchestrator.watch.logs import logging_to
from orchestrator.watch.set_aside import set_aside_in, set_aside_text

if TYPE_CHECKING:  # slow to load
    from divergence.rules import Rule
    from orchestrator.loop.committer import Listener
    from orchestrator.loop.run import Ended
    from orchestrator.pool.protocol import Pool
    from trainer.protocol import Trainer

LAST_S = 10.0
"""How long the process may take to end after the second Ctrl-C, storage included."""


@click.command("run", epilog="Example: holdfast run configs/quickstart.yaml --out runs/quickstart")
@config_argument
@click.option("--out", metavar="DIR", help="Run folder or URI. Default: runs/<name of CONFIG>.")
@set_option
@code_option
@click.option("--address", metavar="HOST:PORT", help="A running Ray cluster (auto: find it).")
@click.option("--ship", is_flag=True, help="Send this code to the cluster's nodes.")
@click.option("--resume", is_flag=True, help="Resume a run; an error where DIR holds none.")
@json_option
@click.option(
    "--log", metavar="FILE", help="Append JSON lines about lost processes etc. (-: stderr)."
)
@click.option("--verbose", is_flag=True, help="Show Ray's own output, too.")
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
    """Run CONFIG: many instances each cycle; the best one is the next cycle's warm start.

    The same command again resumes the run. Ctrl-C finishes the current cycle; a second one stops
    at once and loses what is not committed yet.
    """
    config = load_config(config_path, assignments)
    if config.track is not None:
        require_library("tensorboard", "track.tensorboard")
    folder = open_store(out or f"runs/{Path(config_path).stem}")
    if resume:
        require_run(folder)
    sets = [part for given in assignments for part in ("--set", shown_assignment(given))]
    where = [*(["--address", address] if address else []), *(["--ship"] if ship else [])]
    where += [part for own in own_code.folders() for part in ("--code", str(own))]
    again = shlex.join(["holdfast", "run", config_path, "--out", folder.uri, *sets, *where])
    view = open_view(sys.stdout, as_json, config.cycles)
    with logging_to(log), hold_lease(folder, view.say) as store:
        start = prepare(store, config)
        for message in start.messages:
            view.say(message)
        if config.cycles is not None and start.cycle >= config.cycles:
            with _tracking(config, store, view):
                pass  # the last cycles may not be logged yet
            if start.cycle > config.cycles:
                view.say(
                    f"cycles: {config.cycles} has no effect: the run has {start.cycle} already"
                )
            view.say(_summary("complete", start.cycle, store))
            return
        cluster = Cluster(address, ship) if address else None
        skipped = Counter[str]()

        def count(records: Sequence[CycleRecord]) -> None:
            skipped.update(set_aside_in(records))

        try:
            with view:
                ended = _train(config, store, start, view, [count], cluster, verbose)
        except KeyboardInterrupt:
            view.say(f"stopped at once, without the cycle under way; to resume: {again}")
            raise
    if text := set_aside_text(skipped, config, store.uri):
        view.say(text + (f" (since cycle {start.cycle})" if start.cycle else ""))
    if ended.stopped:
        view.say(f"stopped before cycle {ended.cycle}; to resume: {again} --resume")
        sys.exit(130)
    view.say(_summary(ended.ending.value, ended.cycle, store))


def _train(
    config: RunConfig,
    store: Store,
    start: ResumePoint,
    view: View,
    others: Sequence["Listener"],
    cluster: Cluster | None,
    verbose: bool,
) -> "Ended":
    """Run on Ray, and show, measure, publish and track what is committed."""
    view.step("loading")
    if cluster is None:
        local_environment()
    from orchestrator.loop.run import run  # slow to load; Ray reads the environment when imported
    from orchestrator.pool.lines.ray_pool import RayLinePool
    from orchestrator.pool.ray_pool import RayPool
    from orchestrator.pool.ray_start import started_ray
    from orchestrator.pool.retry import RetryPolicy
    from orchestrator.watch.metrics import RunMetrics

    kind = RayLinePool if isinstance(config.search.select, LineagesSelect) else RayPool
    with (
        _keep_off_stdout(verbose),
        _two_stage_stop(view) as stop,
        _publishing(config, store, start, view) as publish,
        _tracking(config, store, view) as track,
        ExitStack() as ray,
    ):
        metrics = RunMetrics(store.uri, live=config.source.live)
        listeners = [view.show, metrics.update, *others, *publish, *track]

        def make_pool(trainer: "Trainer", rules: Sequence["Rule"]) -> "Pool":
            view.step("connecting to Ray" if cluster else "starting Ray")
            actors = None if config.actors == "auto" else config.actors
            size = ray.enter_context(started_ray(cluster, actors, verbose))
            policy = RetryPolicy(config.tries, config.patience_s)
            return kind(trainer, rules, size=size, policy=policy)

        return run(config, store, start, listeners, make_pool, stop, view.step)


@contextmanager
def _keep_off_stdout(verbose: bool) -> Iterator[None]:
    """Only the view, which has its stream already, writes to standard output.

    Ray prints errors such as a lost worker there, whatever `log_to_driver` says.
    """
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(sys.stderr if verbose else nowhere):
        yield


@contextmanager
def _publishing(
    config: RunConfig, store: Store, start: ResumePoint, view: View
) -> Iterator[list["Listener"]]:
    """The listener that publishes champions, where the config says so."""
    if config.publish is None:
        yield []
        return
    with BackgroundPublisher(open_publisher(config, config.publish, store), view.say) as publisher:
        publisher.offer(start.records.values())  # the run may have died before it published them
        yield [publisher.offer]


@contextmanager
def _tracking(config: RunConfig, store: Store, view: View) -> Iterator[list["Listener"]]:
    """The listener that logs cycles for TensorBoard, where the config says so."""
    if config.track is None:
        yield []
        return
    from orchestrator.track.background import BackgroundTracker  # pandas is slow to load
    from orchestrator.track.event_log import EventLog

    with BackgroundTracker(EventLog(config.track, config, store), view.say) as tracker:
        tracker.offer(())  # the run may have died before it logged its last cycles
        yield [tracker.offer]


def _summary(how: str, cycles: int, store: Store) -> str:
    return f"{how} with {cycles} cycles in {store.uri}"


@contextmanager
def _two_stage_stop(view: View) -> Iterator[threading.Event]:
    """The first Ctrl-C (or SIGTERM) sets the event, the second raises KeyboardInterrupt.

    The process is killed if it has not ended soon after the second one.
    """
    stop, at_once, over = threading.Event(), threading.Event(), threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            at_once.set()
            raise KeyboardInterrupt
        stop.set()

    def announce() -> None:  # not in the handler, which may have interrupted another print
        stop.wait()
        if not over.is_set():
            view.say(
                "stopping once the cycles under way are committed; press again to stop at once"
            )

    def end() -> None:  # not in `announce`, which may block where nobody reads its output
        at_once.wait()
        time.sleep(LAST_S)
        os._exit(130)

    for watch in (announce, end):
        threading.Thread(target=watch, daemon=True).start()
    before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        over.set()
        stop.set()
