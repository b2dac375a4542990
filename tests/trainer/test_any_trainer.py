"""What every trainer must hold, and what makes one of a small class."""

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from divergence.errors import InputError
from support.trainers import case_of, own_trainers
from trainer.contract.trainers import CHECKS, TrainerCase, timeless
from trainer.outcome import Status
from trainer.setting import setting_of
from trainer.states.model import StateModel, changes_between
from trainer.states.trainer import StateTrainer


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    with own_trainers():
        yield


@pytest.fixture
def case() -> TrainerCase:
    return case_of("own")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("trainer", ["offset", "own"])
def test_the_contract_of_trainers(trainer: str, check: Callable[[TrainerCase], str]) -> None:
    assert check(case_of(trainer)) == ""


def with_train(case: TrainerCase, train: Any) -> TrainerCase:
    """The case with another way to train."""
    assert isinstance(case.trainer, StateTrainer)
    case.trainer.own.train = train
    return case


def test_logits_of_too_few_events_are_an_error_of_the_trainer(case: TrainerCase) -> None:
    def train(chunk: Any, state: Any, setting: Any) -> Iterator[Any]:
        yield np.zeros(7)

    with pytest.raises(ValueError, match="train gave logits of 7 of "):
        with_train(case, train).train(case.trainer.new_model(), 0)


@pytest.mark.parametrize("value", [15.0, -15.0, np.inf, np.nan])
def test_an_entry_at_tau_or_not_finite_is_divergence(case: TrainerCase, value: float) -> None:
    def train(chunk: Any, state: Any, setting: Any) -> Iterator[Any]:
        yield np.zeros(100)
        state["weights"][3] = value
        yield np.zeros(len(chunk[1]) - 100)

    _, _, trained = with_train(case, train).train(case.trainer.new_model(), 0)
    assert trained.outcome.status is Status.DIVERGED
    assert trained.outcome.divergence is not None
    assert trained.outcome.divergence.feature == "weights"
    assert trained.outcome.reason.startswith("weights reached")


def test_an_entry_below_tau_is_not_divergence(case: TrainerCase) -> None:
    def train(chunk: Any, state: Any, setting: Any) -> Iterator[Any]:
        state["weights"][3] = 14.99
        yield np.zeros(len(chunk[1]))

    _, _, trained = with_train(case, train).train(case.trainer.new_model(), 0)
    assert trained.outcome.status is Status.RETAINED
    assert trained.outcome.logloss == pytest.approx(np.log(2))


def test_the_first_logit_that_is_not_finite_is_where_it_diverged(case: TrainerCase) -> None:
    def train(chunk: Any, state: Any, setting: Any) -> Iterator[Any]:
        logits = np.zeros(len(chunk[1]))
        logits[41:] = np.nan
        yield logits

    _, _, trained = with_train(case, train).train(case.trainer.new_model(), 0)
    assert trained.outcome.divergence is not None
    assert (trained.outcome.divergence.event, trained.outcome.events_done) == (41, 42)


def test_steps_that_are_too_large_diverge_at_the_same_event_when_traced(case: TrainerCase) -> None:
    hot = setting_of({"step": 30.0, "decay": 1e-6})
    trainer, model = case.trainer, case.trainer.new_model()
    chunk = trainer.compile(case.tables[0])
    start = model.gather(chunk, 0).tables
    outcome = trainer.train(chunk, start, hot, case.rule).outcome
    traced = trainer.trace(chunk, start, hot, case.rule)
    assert outcome.status is Status.DIVERGED
    assert timeless(traced.outcome) == timeless(outcome)
    assert traced.points[-1].max_inf >= 15.0
    assert {one.level for one in traced.crossings} == {0.125, 0.25, 0.5, 0.75, 1.0}


def test_it_travels_with_the_source_of_its_class(case: TrainerCase) -> None:
    again = pickle.loads(pickle.dumps(case.trainer))
    other = TrainerCase(again, case.tables, case.setting, case.rule, case.options)
    assert other.bits(other.after(2)) == case.bits(case.after(2))


def test_a_delta_has_the_rows_that_changed() -> None:
    old = {"a": np.zeros((8, 2), np.float32), "b": np.zeros(3), "gone": np.zeros(1)}
    new = {"a": old["a"].copy(), "b": np.ones(3), "c": np.arange(2)}
    new["a"][5, 1] = np.nan
    found = changes_between(old, new, 4)
    at = found.rows.pop("a")
    assert at is not None
    assert (at.tolist(), found.rows, found.removed) == ([5], {"b": None, "c": None}, ("gone",))


def test_rows_that_appear_and_go_are_in_deltas(case: TrainerCase) -> None:
    trainer = case.trainer
    first = {"weights": np.arange(4.0), "old": np.zeros(2)}
    model = StateModel(trainer, first, 0)
    base = trainer.save(model)
    new = {"weights": np.arange(6.0), "new": np.ones((2, 2), np.int16)}
    changes = model.scatter(None, 1, model.gather(None, 1), new)
    again = trainer.load(base, "full")
    trainer.apply_delta(again, trainer.save_delta(model, changes), "delta")
    assert {name: array.tolist() for name, array in again.state.items()} == {
        name: array.tolist() for name, array in new.items()
    }
    with pytest.raises(InputError, match=r"delta applies to a model of cycle 0, but this .* 1"):
        trainer.apply_delta(again, trainer.save_delta(model, changes), "delta")


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ([], "must be a dict of arrays, but is list"),
        ({"a": 1.0}, r"state\['a'\] must be an array of one axis or more"),
        ({"a": np.zeros(2, "U3")}, r"state\['a'\] must be of float32, .* but is of <U3"),
    ],
)
def test_a_state_that_no_file_can_hold_is_refused(case: TrainerCase, state: Any, text: str) -> None:
    assert isinstance(case.trainer, StateTrainer)
    case.trainer.own.start = lambda: state
    with pytest.raises(InputError, match=text):
        case.trainer.new_model()


def test_a_file_of_other_options_or_cut_short_is_refused(case: TrainerCase) -> None:
    data = case.bits(case.after(1))
    with pytest.raises(InputError, match="m is not a Holdfast model, or is damaged"):
        case.trainer.load(data[:-3], "m")
    other = case_of("own", "trainer.options.rows=64").trainer
    with pytest.raises(InputError, match="does not fit the config: it has options"):
        other.load(data, "m")
    with pytest.raises(InputError, match="'holdfast-state'"):
        case_of("offset").trainer.load(data, "m")
