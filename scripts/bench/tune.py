"""The tuner loop as one would write it in Ray Tune: population-based training, with checkpoints.

Every trial is a line of rows of its own; a step trains on the next chunk. After each step the
worse half copies the better one's rows (through a checkpoint) and moves its setting.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from orchestrator.config.rules import kernel_rule
from orchestrator.loop.arm_state import ArmState
from trainer.chunk import Chunk
from trainer.instance import Buffers, Job, train
from trainer.kernel import Tables
from trainer.setting import Setting


class TuneTrial(tune.Trainable):
    """One member of the population. What it trains from is the same at every step."""

    def setup(self, config: dict[str, Any], what: Any = None) -> None:
        """Find chunks and rows in the object store."""
        self.job, self.chunks, self.starts, self.rule = what
        self.room = Buffers()
        self.tables: Tables | None = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another setting, in the same process."""
        self.setting = Setting(new_config["eta0"], 3.0, 0.5, lam=1e-3)
        return True

    def step(self) -> dict[str, Any]:
        """One instance."""
        chunk, start = self.chunks[self.iteration], self.starts[self.iteration]
        trained = train(self.job, chunk, start, self.setting, self.rule, buffers=self.room)
        self.tables = trained.tables
        return {"logloss": trained.outcome.logloss, "kernel": trained.outcome.seconds}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The trained rows."""
        if self.tables is not None:
            np.savez(Path(checkpoint_dir) / "rows.npz", **self.tables._asdict())

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Another trial's rows."""
        path = Path(checkpoint) / "rows.npz"
        if path.exists():
            with np.load(path) as rows:
                self.tables = Tables(**rows)


def population(job: Job, chunks: list[Chunk], line: ArmState, size: int) -> float:
    """Wall seconds of as many steps as there are chunks, by a population of this size."""
    starts = [line.gather(cycle, chunk).tables for cycle, chunk in enumerate(chunks)]
    rule = kernel_rule(line.config.rule, Setting(0.3, 3.0, 0.5, lam=1e-3))
    what = (job, chunks, starts, rule)  # Tune puts it in the object store
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="logloss",
        mode="min",
        perturbation_interval=1,
        quantile_fraction=0.5,
        hyperparam_mutations={"eta0": tune.loguniform(0.1, 0.5)},
        synch=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            tune.with_resources(tune.with_parameters(TuneTrial, what=what), {"cpu": 1}),
            param_space={"eta0": tune.loguniform(0.1, 0.5)},
            tune_config=tune.TuneConfig(scheduler=scheduler, num_samples=size, reuse_actors=True),
            run_config=tune.RunConfig(
                stop={"training_iteration": len(chunks)}, storage_path=folder, verbose=0
            ),
        )
        begin = time.perf_counter()
        results = tuner.fit()
        seconds = time.perf_counter() - begin
        table = results.get_dataframe()
        assert table["training_iteration"].tolist() == [len(chunks)] * size
        return seconds
