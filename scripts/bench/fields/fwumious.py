"""Fwumious Wabbit by its program and Vowpal Wabbit's text files, as its FFM example has it.

One letter for each field, every field alone (`--keep`) and all pairs of fields by FFM, Adagrad
with a constant power (`--adaptive --sgd`, its `--power_t 0.0` for weights), logistic loss. The
program ends after each chunk: its model is saved with `--save_resume` and read for the next one,
which is part of its time.
"""

from pathlib import Path

import numpy as np

from scripts.bench.fields.events import vw_lines
from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening
from scripts.bench.fields.programs import run_program

COMMON = (
    "--adaptive --sgd --loss_function logistic --link logistic --power_t 0.0 --l2 0.0 "
    "--hash all --noconstant -b 22 --ffm_bit_precision 22"
)


def fwumious(opening: Opening) -> Learner:
    """A learner that has seen nothing."""
    return Fwumious(opening)


class Fwumious(Learner):
    """One run of the program for each chunk."""

    def __init__(self, opening: Opening) -> None:
        self._program, self._folder = opening.programs["fwumious"], Path(opening.folder)
        self._letters = "".join(chr(ord("A") + i) for i in range(opening.fields.count))
        rate = f"{opening.number('learning_rate'):g}"
        self._options = [*COMMON.split(), "-l", rate, "--ffm_learning_rate", rate]
        self._options += ["--ffm_k", str(int(opening.number("ffm_k")))]
        for letter in self._letters:
            self._options += ["--keep", letter, "--ffm_field", letter]
        names = "".join(f"{letter},{letter}\n" for letter in self._letters)
        (self._folder / "vw_namespace_map.csv").write_text(names, encoding="utf-8")
        self._has_model = False

    def encode(self, chunk: FieldChunk) -> str:
        """Vowpal Wabbit's text format, as a file."""
        path = self._folder / "chunk.vw"
        lines = vw_lines(chunk.events, self._letters)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        return str(path)

    def predict(self, encoded: str) -> Chances | None:
        """By `-t`, which ignores the labels."""
        if not self._has_model:
            return None
        chances = self._folder / "chances.txt"
        self._run(["-t", "-i", "model", "-d", encoded, "-p", str(chances)])
        return np.loadtxt(chances, dtype=np.float64, ndmin=1)

    def train(self, encoded: str) -> int:
        """Read the model, train on the chunk in order, write the model."""
        resumed = ["-i", "model"] if self._has_model else []
        self._run([*resumed, "-d", encoded, "-f", "model", "--save_resume"])
        self._has_model = True
        return sum(1 for _ in Path(encoded).open(encoding="utf-8"))

    def _run(self, options: list[str]) -> None:
        done = run_program([self._program, *self._options, *options], str(self._folder))
        self.peak_bytes = max(self.peak_bytes, done.peak_bytes)
