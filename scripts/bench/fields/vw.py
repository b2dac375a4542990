"""Vowpal Wabbit by its Python binding, event by event in its text format, which it parses itself.

`--lrq` as its demo on MovieLens has it: one namespace for the user and one for the ad, a low-rank
product of the two beside the linear part, `--l2 1e-6`, the default updates (adaptive, normalised,
invariant). `--coin` has no step size: it is searched over `--ftrl_alpha`, what it bets with at
first, and with or without all products of user with ad fields (`-q`).
"""

import numpy as np
import vowpalwabbit

from scripts.bench.fields.events import vw_lines
from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening

COMMON = "--loss_function logistic --link logistic -b 22 --quiet"
"""Chances as predictions; room for four million weights, as products have many values."""
USER, AD = "u", "a"


def lrq(opening: Opening) -> Learner:
    """Low-rank products of the user's and the ad's values."""
    letters = USER * opening.fields.users + AD * opening.fields.ads
    rank, rate = int(opening.number("rank")), opening.number("learning_rate")
    options = f"--lrq {USER}{AD}{rank} --l2 1e-6 --learning_rate {rate:g}"
    return Wabbit(letters, options, opening.seed)


def coin(opening: Opening) -> Learner:
    """Coin betting on values, and on pairs of them if the setting says so."""
    letters = USER * opening.fields.users + AD * opening.fields.ads
    products = f"-q {USER}{AD}" if opening.setting["products"] == "pairs" else ""
    options = f"--coin --ftrl_alpha {opening.number('ftrl_alpha'):g} {products}"
    return Wabbit(letters, options, opening.seed)


class Wabbit(Learner):
    """A workspace of Vowpal Wabbit."""

    def __init__(self, letters: str, options: str, seed: int) -> None:
        self._letters, self._trained = letters, False
        self._workspace = vowpalwabbit.Workspace(f"{COMMON} --random_seed {seed} {options}")

    def encode(self, chunk: FieldChunk) -> list[str]:
        """Its text format."""
        return vw_lines(chunk.events, self._letters)

    def predict(self, encoded: list[str]) -> Chances | None:
        """The chance of a click of each event."""
        if not self._trained:
            return None
        return np.array([self._workspace.predict(line) for line in encoded], np.float64)

    def train(self, encoded: list[str]) -> int:
        """One event after the other."""
        for line in encoded:
            self._workspace.learn(line)
        self._trained = True
        return len(encoded)
