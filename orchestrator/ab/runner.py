"""Runs the trials of an A/B test, each seed in its own process; skips finished trials."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import click

from orchestrator.ab import folder
from orchestrator.ab.config import AbConfig
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store


def run_trials(
    config: AbConfig, store: Store, jobs: int, log: Callable[[str], None] = lambda _: None
) -> None:
    """Run the seeds without a finished trial, `jobs` at a time."""
    folder.prepare(store, config)
    finished = folder.finished_seeds(store)
    left = [seed for seed in config.seeds if seed not in finished]
    if len(left) < len(config.seeds):
        skipped = len(config.seeds) - len(left)
        log(f"skipping {skipped} of {len(config.seeds)} trials: already finished")
    if not left:
        return
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # a trial is one process on one core
    with ProcessPoolExecutor(min(jobs, len(left)), get_context("spawn")) as pool:
        tasks = {pool.submit(_run_seed, store.uri, seed): seed for seed in left}
        try:
            for task in as_completed(tasks):
                task.result()
                log(f"seed {tasks[task]}: finished")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_seed(uri: str, seed: int) -> None:
    from orchestrator.ab.trial import run_trial  # loads the kernels

    store = open_store(uri)
    config = folder.ab_config(store)
    finished = run_trial(config, seed, lambda line: click.echo(f"holdfast: {line}", err=True))
    folder.save(store, seed, finished)
