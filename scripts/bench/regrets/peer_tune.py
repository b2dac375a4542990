"""Ray Tune's PBT and PB2, driving our trainer: a trial is a model of its own with a setting.

As their pages advise: the class API with checkpoints, perturbation every 5 iterations (the PBT
guide and the PB2 example), quantile_fraction 0.25, reused actors. An iteration is a chunk. A trial
is scored on it before it trains on it, and reports that *served* log-loss less that of a constant
CTR: out of sample, as Tune's examples report accuracy on a test set. The trial with the best last
result is served on the next chunk, as `get_best_result` chooses by default. `synch=True`, since all
trials have to be at the same chunk of a stream. PB2 searches logarithms, because its bounds are
linear. The first settings are those of the lines. A trial that diverges skips the chunk and reports
the worst result.

Perturbations depend on the order in which trials answer: two runs differ in their draws.
"""

import logging
import math
import os
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # the newer one prints even if told not to

from ray import tune
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.schedulers.pb2 import PB2
from ray.tune.search.basic_variant import BasicVariantGenerator

from orchestrator.config.ranges import Choice, Interval, ends
from orchestrator.pool.ray_env import local_cores
from orchestrator.pool.ray_start import started_ray
from scripts.bench.regrets.peer_setup import (
    PeerMember,
    PeerResult,
    PeerSetup,
    Progress,
    Table,
    served_by_best,
)

INTERVAL = 5
LIMIT_S = 1800.0
"""Tune stops after this time; the stream is then reported as not finished."""
FILE = "model.safetensors"
Values = dict[str, Any]


class PeerTrial(tune.Trainable):
    """A member of the population."""

    def setup(self, config: Values, setup: Any = None, decode: Any = None) -> None:
        """Begin with an empty model."""
        self.peer: PeerSetup = setup
        self.decode: Callable[[Values], Values] = decode
        self.reset_config(config)

    def reset_config(self, new_config: Values) -> bool:
        """Become another trial, in the same process: a new one has no checkpoint to restore."""
        self.member = PeerMember(self.peer, self.peer.setting(self.decode(new_config)))
        return True

    def step(self) -> Values:
        """The next chunk."""
        return self.member.step(self.iteration)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The model, as data."""
        (Path(checkpoint_dir) / FILE).write_bytes(self.member.save())

    def load_checkpoint(self, checkpoint: Any) -> None:
        """This trial's model, or that of a better one."""
        self.member.load((Path(checkpoint) / FILE).read_bytes())


def pbt(setup: PeerSetup, progress: Progress) -> PeerResult:
    """The served log-loss of PBT on each chunk."""
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="excess",
        mode="min",
        perturbation_interval=INTERVAL,
        hyperparam_mutations={name: _domain(span) for name, span in setup.searched.items()},
        custom_explore_fn=setup.within,  # by itself it leaves the ranges
        synch=True,
    )
    return _run(setup, scheduler, _as_is, setup.first, progress)


def pb2(setup: PeerSetup, progress: Progress) -> PeerResult:
    """The served log-loss of PB2 on each chunk."""
    logs = {
        name for name, span in setup.searched.items() if isinstance(span, Interval) and span.log
    }
    bounds: dict[str, Any] = {
        name: [math.log10(end) if name in logs else end for end in ends(span)]
        for name, span in setup.searched.items()
    }
    scheduler = PB2(
        time_attr="training_iteration",
        metric="excess",
        mode="min",
        perturbation_interval=INTERVAL,
        hyperparam_bounds=bounds,
        synch=True,
    )
    first = [
        {name: math.log10(v) if name in logs else v for name, v in values.items()}
        for values in setup.first
    ]

    def decode(values: Values) -> Values:
        return {name: 10 ** values[name] if name in logs else values[name] for name in bounds}

    return _run(setup, scheduler, decode, first, progress)


def _run(
    setup: PeerSetup,
    scheduler: PopulationBasedTraining,
    decode: Callable[[Values], Values],
    first: list[dict[str, float]],
    progress: Progress,
) -> PeerResult:
    random.seed(setup.config.seed)  # Tune's schedulers draw from the global generators
    np.random.seed(setup.config.seed)  # noqa: NPY002
    cores, size, cycles = local_cores(), setup.instances, len(setup.chunks)
    trial = tune.with_parameters(PeerTrial, setup=setup, decode=decode)
    space = {name: tune.uniform(0.0, 1.0) for name in first[0]}  # all come from `first`
    seen = _Seen(size, progress, cycles)
    for name in ("ray.tune", "ray.train"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, started_ray(None, cores, verbose=False):
        tuner = tune.Tuner(
            tune.with_resources(trial, {"cpu": 1}),
            param_space=space,
            tune_config=tune.TuneConfig(
                scheduler=scheduler,
                search_alg=BasicVariantGenerator(points_to_evaluate=first),
                num_samples=size,
                reuse_actors=True,
                time_budget_s=LIMIT_S,
            ),
            run_config=tune.RunConfig(
                stop={"training_iteration": cycles},
                storage_path=folder,
                checkpoint_config=tune.CheckpointConfig(num_to_keep=4),
                callbacks=[seen],
                verbose=0,
            ),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PB2's regression says how each of its fits went
            results = tuner.fit()
    if results.errors:
        raise results.errors[0]
    if len(seen.found) < size * cycles:
        return PeerResult([], seen.results, note=f"not finished within {LIMIT_S:.0f} s")
    served, worth = seen.tables()
    return PeerResult(served_by_best(served, worth), seen.results)


class _Seen(tune.Callback):
    """Keeps the results of all trials: the files that Tune writes begin again after a restore."""

    def __init__(self, size: int, progress: Progress, cycles: int) -> None:
        self.results, self.size, self.progress, self.cycles = 0, size, progress, cycles
        self.found: dict[tuple[str, int], tuple[float, float]] = {}
        self.order: list[str] = []

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: Any, **_: Any
    ) -> None:
        """Keep it, and say how many chunks the trials have seen on average."""
        at = (trial.trial_id, result["training_iteration"] - 1)
        self.found[at] = (result["served"], result["excess"])
        self.order = [one.trial_id for one in trials]
        self.results += 1
        if self.results % self.size == 0:
            self.progress(self.results // self.size, self.cycles)

    def tables(self) -> tuple[Table, Table]:
        """What every trial served on every chunk, and how it counts: [trials, chunks]."""
        both = np.array(
            [[self.found[name, cycle] for cycle in range(self.cycles)] for name in self.order]
        )
        return both[:, :, 0], both[:, :, 1]


def _as_is(values: Values) -> Values:
    return values


def _domain(span: Interval | Choice) -> Any:
    if isinstance(span, Choice):
        return list(span.choice)
    return (tune.loguniform if span.log else tune.uniform)(span.low, span.high)
