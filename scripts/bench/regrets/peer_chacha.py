"""FLAML's ChaCha (AutoVW) on Vowpal Wabbit: a learner of its own, so its own regret is measured.

As FLAML's page on online AutoML shows it: one namespace for each feature, 5 live models, search
over interactions of namespaces and the learning rate (2e-10 to 1, from 0.5), predict and learn
event by event. Set up for clicks: logistic loss, and the squared error of its prediction in
[-1, 1] as the metric, which is four times the Brier score. FLAML knows no log-loss, and its
default, the absolute error, is not a proper score of probabilities.

Its log-loss is progressive: it learns from every event before the next one, which is easier than
to serve a whole chunk. So it is compared with Vowpal Wabbit itself on the same events, with the
best fixed setting of `fixed_settings` in hindsight.
"""

import logging
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import vowpalwabbit
from numpy.typing import NDArray

from scripts.bench.regrets.peer_setup import PeerResult, PeerSetup, Progress
from scripts.bench.regrets.vw_events import (
    Ids,
    first_chunks,
    fixed_settings,
    progressive,
    vw_lines,
)
from trainer.chunk import Chunk
from trainer.features import FeatureSpec

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # FLAML's AutoML, which is not used, needs more packages
    from flaml import AutoVW
    from flaml.onlineml import trial as flaml_trial
    from flaml.tune import loguniform

LIVE_MODELS = 5
FIRST_RATE, LOWEST_RATE, HIGHEST_RATE = 0.5, 2e-10, 1.0
LEARNER: dict[str, Any] = {"loss_function": "logistic", "link": "glf1", "b": 20, "quiet": ""}
"""Predictions in [-1, 1]; room for a million weights, as interactions have many values."""


def chacha(setup: PeerSetup, progress: Progress) -> PeerResult:
    """The progressive log-loss of ChaCha on the first chunks, and of its best fixed setting."""
    logging.getLogger("flaml").setLevel(logging.ERROR)
    flaml_trial.mean_squared_error = _squared_error
    chunks = first_chunks(setup.chunks)
    ids: Ids = {}
    learner = AutoVW(
        max_live_model_num=LIVE_MODELS,
        search_space={
            "interactions": AutoVW.AUTOMATIC,
            "learning_rate": loguniform(LOWEST_RATE, HIGHEST_RATE),
            **LEARNER,
        },
        init_config={"interactions": set(), "learning_rate": FIRST_RATE},
        metric="mse",
        random_seed=setup.config.seed,
    )
    served: list[float | None] = []
    passes = 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.vw"
        with path.open("w", encoding="utf-8") as file:
            for done, chunk in enumerate(chunks):
                lines = list(vw_lines(chunk, ids))
                file.writelines(f"{line}\n" for line in lines)
                predictions, updates = _learn(learner, lines)
                served.append(progressive(predictions, chunk.click))
                passes += updates / len(chunk)
                progress(done + 1, len(chunks))
        reference, best = _best_fixed(setup.spec, path, chunks)
    note = (
        f"best fixed setting: {best}; {LIVE_MODELS} live models, {sum(map(len, chunks)):,} events"
    )
    return PeerResult(served, round(passes), reference, note)


def _learn(learner: AutoVW, lines: Sequence[str]) -> tuple[NDArray[np.float64], int]:
    """Predict each event, then learn from it; predictions and how often a model has learnt."""
    predictions, updates = np.empty(len(lines)), 0
    for i, line in enumerate(lines):
        predictions[i] = learner.predict(line)
        updates += len(learner._trial_runner.running_trials)
        learner.learn(line)
    return predictions, updates


def _squared_error(truth: Sequence[float], predicted: Sequence[float]) -> float:
    """What scikit-learn's function returns for one event, which takes it a millisecond."""
    return float((truth[0] - predicted[0]) ** 2)


def _best_fixed(spec: FeatureSpec, path: Path, chunks: Sequence[Chunk]) -> tuple[list[float], str]:
    """The fixed setting with the lowest log-loss, chunk by chunk, and its name."""
    found = {}
    for name, setting in fixed_settings(spec):
        predictions = _one_pass(setting, path)
        ends = np.cumsum([len(chunk) for chunk in chunks])
        parts = np.split(predictions, ends[:-1])
        found[name] = [
            progressive(part, chunk.click) for part, chunk in zip(parts, chunks, strict=True)
        ]
    sizes = [len(chunk) for chunk in chunks]
    best = min(found, key=lambda name: float(np.average(found[name], weights=sizes)))
    return found[best], best


def _one_pass(setting: dict[str, Any], path: Path) -> NDArray[np.float64]:
    """Vowpal Wabbit's own predictions of a file, each before it learns from the event."""
    out = path.with_suffix(".predictions")
    options = [f"--{name} {value}" for name, value in LEARNER.items() if name != "b"]
    options += [f"-b {LEARNER['b']}", f"--learning_rate {setting['learning_rate']}"]
    options += [f"--interactions {pair}" for pair in setting["interactions"]]
    learner = vowpalwabbit.Workspace(f"{' '.join(options)} -d {path} -p {out}")
    learner.finish()
    return np.loadtxt(out, dtype=np.float64, ndmin=1)
