"""libFFM by its programs `ffm-train` and `ffm-predict` and its text files, on one thread.

`ffm-train` always starts anew and goes through its file in a random order, several times.

- As shipped: after every fourth chunk it trains on all events so far. As its README advises, the
  number of iterations is found with a validation set and `--auto-stop`: the latest chunk is the
  validation set, then all events are trained for that many iterations.
- Online: a program whose shuffle has been removed. One pass (`-t 1`) over all events so far, in
  order, is then the model that learning event by event gives: vectors are drawn in the order of
  their numbers, which is that of their first appearance.
"""

import re
from pathlib import Path

import numpy as np

from scripts.bench.fields.events import ffm_lines
from scripts.bench.fields.learner import Chances, FieldChunk, Learner, Opening
from scripts.bench.fields.programs import run_program

EVERY = 4
"""Chunks between two trainings of the program as shipped."""
MOST = 15
"""Iterations, if nothing stops it; its default."""
_STOPPED = re.compile(r"Use model at (\d+)th iteration")


def online(opening: Opening) -> Learner:
    """The program without its shuffle."""
    return OnlineFFM(opening, "libffm_online")


def shipped(opening: Opening) -> Learner:
    """The program as it is."""
    return ShippedFFM(opening, "libffm")


class OnlineFFM(Learner):
    """One pass over all events so far, after each chunk."""

    def __init__(self, opening: Opening, program: str) -> None:
        self._train, self._folder = opening.programs[program], Path(opening.folder)
        self._predict = str(Path(self._train).with_name("ffm-predict"))
        rate, k = opening.number("r"), int(opening.number("k"))
        self._options = ["-r", f"{rate:g}", "-k", str(k), "-s", "1"]
        self._events, self._has_model = 0, False
        self._path("all").write_text("")

    def encode(self, chunk: FieldChunk) -> list[str]:
        """Its text format."""
        return ffm_lines(chunk.events)

    def predict(self, encoded: list[str]) -> Chances | None:
        """By `ffm-predict`; values that the model has not seen count nothing there."""
        if not self._has_model:
            return None
        self._write("test", encoded)
        command = [self._predict, *map(str, map(self._path, ("test", "model", "chances")))]
        run_program(command, str(self._folder))
        return np.loadtxt(self._path("chances"), dtype=np.float64, ndmin=1)

    def train(self, encoded: list[str]) -> int:
        """All events so far, in order, from the beginning; that is how many it takes time for."""
        self._append(encoded)
        self._run(["-t", "1"])
        return self._events

    def _run(self, options: list[str], file: str = "all") -> str:
        """Train a model on a file; what the program says."""
        paths = [str(self._path(file)), str(self._path("model"))]
        done = run_program([self._train, *self._options, *options, *paths], str(self._folder))
        self.peak_bytes, self._has_model = max(self.peak_bytes, done.peak_bytes), True
        return done.text

    def _append(self, lines: list[str]) -> None:
        with self._path("all").open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
        self._events += len(lines)

    def _write(self, name: str, lines: list[str]) -> None:
        self._path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.ffm"


class ShippedFFM(OnlineFFM):
    """Trained anew on all events so far, every few chunks."""

    _chunks = 0

    def train(self, encoded: list[str]) -> int:
        """Nothing in most chunks; the first two, then every fourth, are trained."""
        due = self._chunks == 0 or self._chunks % EVERY == 1
        iterations = self._iterations(encoded) if due and self._chunks else 1
        self._append(encoded)
        if due:
            self._run(["-t", str(iterations)])
        self._chunks += 1
        return len(encoded)

    def _iterations(self, latest: list[str]) -> int:
        """After how many the loss on the latest chunk begins to rise."""
        self._write("latest", latest)
        check = ["-t", str(MOST), "--auto-stop", "-p", str(self._path("latest"))]
        stopped = _STOPPED.search(self._run(check))
        return max(1, int(stopped[1])) if stopped else MOST
