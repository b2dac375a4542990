"""Mistakes in a trainer of the user's own: one line each, and a run goes on where it can."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from divergence import own_code
from divergence.errors import InputError
from orchestrator.config.schema import RunConfig
from orchestrator.journal.record import CycleRecord
from orchestrator.offline.replay import replay
from orchestrator.storage.open import open_store
from support.runs import go_here, records
from support.trainers import config_of
from trainer.outcome import Status

LINES = "search.select={kind: lineages, replace_every: [1, 2]}"
BOTH = pytest.mark.parametrize("more", [(), (LINES,)], ids=["champion", "lineages"])
GOOD = """
import numpy as np

class Good:
    parameters = {"step": (0.01, 0.1)}
    def __init__(self, spec, seed): self.label = spec.label
    def compile(self, events): return events[self.label].to_numpy().astype(float)
    def start(self): return {"bias": np.zeros(1)}
    def train(self, chunk, state, setting):
        yield self.logits(chunk, state)
        state["bias"] += setting["step"] * (chunk.mean() - 0.5)
    def logits(self, chunk, state): return np.full(len(chunk), state["bias"][0])

class Mine(Good):
"""


@pytest.fixture(autouse=True)
def nothing_allowed_after() -> Iterator[None]:
    yield
    own_code.allow([])


def config_with(folder: Path, body: str, *more: str) -> RunConfig:
    """A run of three cycles with a trainer that differs from a good one in this."""
    (folder / "mine.py").write_text(GOOD + "".join(f"    {line}\n" for line in body.splitlines()))
    own_code.allow([folder])
    return config_of(
        "own", "trainer={kind: python, object: 'mine:Mine'}", "cycles=3", *more, events=60
    )


def run_with(folder: Path, body: str, *more: str) -> list[CycleRecord]:
    """The records of such a run."""
    go_here(config_with(folder, body, *more), folder / "run")
    return records(folder / "run", "only")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("train = None", "mine:Mine: the class must have a method train"),
        ("logits = property()", "mine:Mine: the class must have a method logits"),
        ("watched = ('nope',)", "mine:Mine.start: the state has no 'nope', which watched names"),
        ("rules, multipliers = ('euclidean',), ('mu',)",
         "mine:Mine.start: the state has no 'mu', which multipliers names"),
        ("def logits(self, chunk, state): return np.zeros(1)", "mine:Mine.logits gave 1 logits"),
        ("def logits(self, chunk, state): return chunk['a']", "mine:Mine: line 15: IndexError"),
    ],
)  # fmt: skip
def test_what_is_wrong_from_the_start_ends_the_run_in_one_line(
    tmp_path: Path, body: str, text: str
) -> None:
    with pytest.raises(InputError) as found:
        run_with(tmp_path, body)
    assert text in str(found.value)
    assert len(str(found.value).splitlines()) == 1


TRAIN = "def train(self, chunk, state, setting):\n    "


@BOTH
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (TRAIN + "yield np.zeros(7)", "mine:Mine.train gave 7 logits for "),
        (TRAIN + "yield np.zeros(2 * len(chunk))", "mine:Mine.train gave "),
        (TRAIN + "yield setting['stp']", "mine:Mine: line 16: KeyError: 'stp'"),
        (TRAIN + "state['a'] = [1]\n    yield 0 * chunk",
         "mine:Mine.train: state['a'] must be an array of one axis or more"),
        (TRAIN + "state['a'] = np.zeros(2, bool)\n    yield 0 * chunk",
         "mine:Mine.train: state['a'] must be of float32, "),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_training_is_the_reason_of_the_instance_and_of_its_replay(
    tmp_path: Path, body: str, text: str, more: tuple[str, ...]
) -> None:
    outcomes = [one for record in run_with(tmp_path, body, *more) for one in record.outcomes]
    assert {one.status for one in outcomes} == {Status.FAILED}
    assert outcomes[0].reason.startswith(text)
    with pytest.raises(InputError, match=text.replace("[", r"\[")):
        replay(open_store(str(tmp_path / "run")), None, 2, 0)


SCORES = {
    "raises": ("1 // 0", "mine:Mine: line 18: ZeroDivisionError"),
    "nan": ("np.nan * chunk", "mine:Mine.logits gave logits that are not finite"),
}
UNSCORED = (
    "def train(self, chunk, state, setting):\n    state['bias'][:] = 0.1\n    yield 0 * chunk\n"
    "def logits(self, chunk, state): return {} if state['bias'][0] else 0 * chunk"
)


@pytest.mark.parametrize("how", SCORES)
def test_a_champion_that_cannot_be_scored_is_reported_and_the_run_goes_on(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    value, text = SCORES[how]
    with caplog.at_level(logging.WARNING, "orchestrator"):
        found = run_with(tmp_path, UNSCORED.format(value))
    assert [record.served_logloss for record in found] == [None] * 3
    assert {one.status for record in found for one in record.outcomes} == {Status.RETAINED}
    assert f"cycle 2: the champion of only could not be scored: {text}" in caplog.text


@pytest.mark.parametrize("how", SCORES)
def test_a_line_that_cannot_be_scored_fails_with_the_reason(tmp_path: Path, how: str) -> None:
    value, text = SCORES[how]
    first, *rest = run_with(tmp_path, UNSCORED.format(value), LINES)
    assert {one.status for one in first.outcomes} == {Status.RETAINED}
    outcomes = [one for record in rest for one in record.outcomes]
    assert {one.status for one in outcomes} == {Status.FAILED}
    assert all(one.reason.startswith(text) for one in outcomes)


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        "def start(self): return {'bias': np.zeros(1), 'a': np.zeros((0, 4)), 'b': np.zeros(0)}",
        "watched = ()",
        "rules = ('euclidean',)\n"
        "def train(self, chunk, state, setting, rule): return super().train(chunk, state, setting)",
    ],
    ids=["empty arrays", "nothing watched", "a rule that no arm names"],
)
def test_what_is_allowed_runs_and_is_replayed(
    tmp_path: Path, body: str, more: tuple[str, ...]
) -> None:
    found = run_with(tmp_path, body, *more)
    assert {one.status for record in found for one in record.outcomes} == {Status.RETAINED}
    assert replay(open_store(str(tmp_path / "run")), None, 2, 0).same
