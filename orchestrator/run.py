"""A run from its folder's state to the stream's end: resume, cycle after cycle, stop."""

import secrets
import threading
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from itertools import count

import ray

from orchestrator.actor import Trainer
from orchestrator.committer import Committer
from orchestrator.config import RunConfig, feature_spec
from orchestrator.cycle import RESERVE, Stage, play
from orchestrator.feed import Feed
from orchestrator.line import model_config, open_lines
from orchestrator.pool import Pool, Terms
from orchestrator.run_folder import Start, prepare
from orchestrator.sources.opening import open_source
from orchestrator.store import Store
from orchestrator.view import View
from trainer.instance import Job


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
    view: View,
    actors: int,
    *,
    must_exist: bool = False,
    stop: threading.Event | None = None,
    trainer: type[Trainer] = Trainer,
) -> Ended:
    """Run until the last cycle, the stream's end, or `stop`, from where the folder stands.

    Needs a Ray that is up. `trainer` may be a stand-in for the class of the actors.
    """
    stop = stop or threading.Event()
    start = prepare(store, config, must_exist)
    for message in start.messages:
        view.say(message)
    if config.cycles is not None and start.cycle >= config.cycles:
        return Ended(Ending.COMPLETE, start.cycle)
    source = open_source(config.source, feature_spec(config.features), store.uri, stop)
    lines = open_lines(config, model_config(config, source.spec), store, start.records)
    first = next(iter(lines.values())).model
    job = Job(source.spec, first.shape, config.model.tau)
    rules = [line.sample_rule for line in lines.values()]
    terms = Terms(config.tries, config.patience_s)
    with (
        closing(Pool(job, rules, actors, terms, trainer)) as pool,
        closing(Feed(source, ray.put, stop, config.cycles)) as feed,
        closing(Committer(store, config.retention)) as committer,
    ):
        pool.wait_until_up()
        driver = secrets.token_hex(8)
        stage = Stage(config, lines, pool, committer, ray.put, driver)
        return _cycles(stage, start, feed, view, stop)


def _cycles(stage: Stage, start: Start, feed: Feed, view: View, stop: threading.Event) -> Ended:
    config = stage.config
    reserve_s = RESERVE * (config.deadline_s or 0.0)
    for cycle in count(start.cycle):
        fed = None if stop.is_set() else feed.take(cycle)
        if fed is None:
            view.show(stage.committer.wait())
            complete = config.cycles is not None and cycle >= config.cycles
            ending = Ending.COMPLETE if complete else Ending.STREAM_ENDED
            return Ended(Ending.STOPPED if stop.is_set() and not complete else ending, cycle)
        before = play(stage, fed, reserve_s)
        view.show(before)
    raise AssertionError("count() has no end")
