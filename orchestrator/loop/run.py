"""A run, from the state of its folder to the end of its stream: resume, cycle after cycle, stop."""

import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum

from orchestrator.config.schema import RunConfig, config_hash, feature_spec
from orchestrator.journal.models import trainer_of
from orchestrator.journal.run_folder import ResumePoint
from orchestrator.loop.committer import Committer, Listener
from orchestrator.loop.cycle import Loop, run_cycle
from orchestrator.loop.open_arms import open_arms, recall_chunks
from orchestrator.loop.prefetch import Prefetcher
from orchestrator.loop.resume import resume_source
from orchestrator.loop.start_run import start_texts
from orchestrator.pool.protocol import MakePool
from orchestrator.sources.opening import open_source
from orchestrator.storage.store import Store

SWITCH_S = 5e-4
"""How long a thread may keep the interpreter: actors wait for the driver, not for its helpers."""


class Ending(Enum):
    """Why a run has ended for now."""

    COMPLETE = "complete"
    """It has all the cycles that it should have."""
    STREAM_ENDED = "the stream has ended"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, and before which cycle."""

    ending: Ending
    cycle: int

    @property
    def stopped(self) -> bool:
        """Whether it was asked to stop."""
        return self.ending is Ending.STOPPED


def run(
    config: RunConfig,
    store: Store,
    start: ResumePoint,
    listeners: Sequence[Listener],
    make_pool: MakePool,
    stop: threading.Event | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> Ended:
    """Run from `start` until the last cycle, the end of the stream, or `stop`.

    `step` is called with what happens before the first cycle. The pool is made last: bad input,
    and a stream that has no more events, start no process.
    """
    sys.setswitchinterval(SWITCH_S)
    stop = stop or threading.Event()
    if config.cycles is not None and start.cycle >= config.cycles:
        return Ended(Ending.COMPLETE, start.cycle)
    step("opening the source")
    source = open_source(config.source, feature_spec(config.features), store.uri, stop)
    resume_source(source, start)
    trainer = trainer_of(config, source.spec)
    arms = open_arms(config, trainer, store, start.records)
    if not start.records:
        for text in start_texts(store, config):
            step(text)
    with closing(Prefetcher(source, stop, config.cycles, trainer.compile)) as prefetcher:
        if not config.source.live:  # its mistakes are found before anything is started
            step(f"reading the events of cycle {start.cycle}")
            if not prefetcher.read_first(start.cycle):
                return Ended(_ending(config, start.cycle, stop), start.cycle)
        with (
            closing(make_pool(trainer, [arm.sample_rule for arm in arms.values()])) as pool,
            closing(prefetcher),  # before the pool
            Committer(store, config.retention, listeners) as committer,
        ):
            recall_chunks(arms, store, source, pool.share)
            prefetcher.share = pool.share
            prefetcher.start(start.cycle)
            step("starting trainer processes, and compiling for them (once on each machine)")
            pool.wait_until_ready()
            waiting = "waiting for" if config.source.live else "training on"
            step(f"{waiting} the events of cycle {start.cycle}")
            driver = secrets.token_hex(8)
            loop = Loop(config, arms, pool, prefetcher, committer, config_hash(config), driver)
            cycle = start.cycle
            while run_cycle(loop, cycle):
                cycle += 1
    return Ended(_ending(config, cycle, stop), cycle)


def _ending(config: RunConfig, cycle: int, stop: threading.Event) -> Ending:
    if config.cycles is not None and cycle >= config.cycles:
        return Ending.COMPLETE
    return Ending.STOPPED if stop.is_set() else Ending.STREAM_ENDED
