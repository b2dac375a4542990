"""A run from its folder's state to the stream's end: resume, cycle after cycle, stop."""

import secrets
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from itertools import count

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, config_hash, feature_spec
from orchestrator.journal.models import model_config
from orchestrator.journal.run_folder import Start
from orchestrator.loop.arm_state import open_arms
from orchestrator.loop.committer import Committer
from orchestrator.loop.cycle import Stage, play
from orchestrator.loop.prefetch import Prefetcher
from orchestrator.pool.pool import Pool, RetryPolicy
from orchestrator.pool.trainer_actor import TrainerActor
from orchestrator.sources.opening import open_source
from orchestrator.storage.store import Store
from orchestrator.watch.console import View
from trainer.instance import Job

SWITCH_S = 5e-4
"""How long a thread may keep the interpreter: actors wait for the driver, not for its helpers."""


class Ending(Enum):
    """Why a run is over for now."""

    COMPLETE = "complete"
    """It has all the cycles that it should have."""
    STREAM_ENDED = "the stream has ended"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, and before which cycle."""

    ending: Ending
    cycle: int


def run(
    config: RunConfig,
    store: Store,
    start: Start,
    view: View,
    actors: int,
    *,
    stop: threading.Event | None = None,
    trainer: type[TrainerActor] = TrainerActor,
    room: Callable[[], int] | None = None,
) -> Ended:
    """Run from `start` until the last cycle, the stream's end, or `stop`.

    Needs a Ray that is up. `trainer` may be a stand-in for the class of the actors. `room` says
    before each cycle how many actors there should be from now on, where that changes.
    """
    sys.setswitchinterval(SWITCH_S)
    stop = stop or threading.Event()
    for message in start.messages:
        view.say(message)
    if config.cycles is not None and start.cycle >= config.cycles:
        return Ended(Ending.COMPLETE, start.cycle)
    source = open_source(config.source, feature_spec(config.features), store.uri, stop)
    lines = open_arms(config, model_config(config, source.spec), store, start.records)
    first = next(iter(lines.values())).model
    job = Job(source.spec, first.shape, config.model.tau)
    rules = [line.sample_rule for line in lines.values()]
    terms = RetryPolicy(config.tries, config.patience_s)
    with (
        closing(Pool(job, rules, actors, terms, trainer)) as pool,
        closing(Prefetcher(source, pool.share, stop, config.cycles)) as feed,
        closing(Committer(store, config.retention)) as committer,
    ):
        feed.begin(start.cycle)
        pool.wait_until_up()
        stage = Stage(config, lines, pool, committer, config_hash(config), secrets.token_hex(8))
        return _cycles(stage, start.cycle, feed, view, stop, room or (lambda: actors))


def _cycles(
    stage: Stage,
    first: int,
    feed: Prefetcher,
    view: View,
    stop: threading.Event,
    room: Callable[[], int],
) -> Ended:
    cycles, committer = stage.config.cycles, stage.committer
    for cycle in count(first):
        if not feed.is_ready(cycle):
            view.show(committer.wait())  # nothing to train on yet
        try:
            fed = None if stop.is_set() else feed.take(cycle)
        except InputError:
            view.show(committer.wait())  # what was trained is not lost with the stream
            raise
        if fed is None:
            view.show(committer.wait())
            return Ended(_ending(cycle, cycles, stop), cycle)

        def meanwhile(after: int = cycle + 1) -> None:
            committer.begin()
            feed.begin(after)

        stage.pool.resize(room())
        view.show(play(stage, fed, meanwhile))
    raise AssertionError("count() has no end")


def _ending(cycle: int, cycles: int | None, stop: threading.Event) -> Ending:
    if cycles is not None and cycle >= cycles:
        return Ending.COMPLETE
    return Ending.STOPPED if stop.is_set() else Ending.STREAM_ENDED
