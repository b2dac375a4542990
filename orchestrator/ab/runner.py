"""Runs the trials of an A/B test, each in its own process; skips finished trials."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import click

from orchestrator.ab import folder
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import Design, trial_name
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store


def run_trials(
    config: AbConfig, store: Store, jobs: int, log: Callable[[str], None] = lambda _: None
) -> None:
    """Run the trials that are not finished, `jobs` at a time."""
    folder.prepare(store, config)
    finished = {d: folder.finished_seeds(store, d) for d in config.designs}
    wanted = [(seed, design) for seed in config.seeds for design in config.designs]
    left = [(seed, design) for seed, design in wanted if seed not in finished[design]]
    if len(left) < len(wanted):
        log(f"skipping {len(wanted) - len(left)} of {len(wanted)} trials: already finished")
    if not left:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a trial is one process on one core
    with ProcessPoolExecutor(min(jobs, len(left)), get_context("spawn")) as pool:
        tasks = {pool.submit(_run_one, store.uri, *each): each for each in left}
        try:
            for task in as_completed(tasks):
                task.result()
                log(f"{trial_name(*tasks[task])}: finished")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_one(uri: str, seed: int, design: Design) -> None:
    from orchestrator.ab.trial import run_trial  # loads the kernels

    store = open_store(uri)
    config = folder.ab_config(store)
    finished = run_trial(
        config, seed, lambda line: click.echo(f"holdfast: {line}", err=True), design
    )
    folder.save(store, seed, finished)
