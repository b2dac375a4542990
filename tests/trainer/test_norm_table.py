"""The table of every vector's norm and updates, and training for many cycles."""

import numpy as np
import pytest

from divergence.rules import make_rule
from support.streams import CONFIGS, SETTING, job_of, some_chunk
from trainer.instance import train
from trainer.model import Model, vectors_of
from trainer.norm_table import norm_table, updates_by
from trainer.outcome import Status
from trainer.setting import Setting
from trainer.sustain import sustain

NONE, ENTROPIC = make_rule("none"), make_rule("entropic", rho=0.1, dual_step=3.0)
HOT = Setting(300.0, 0.01, 0.1)


def model_after(cycles: int, *, multi: bool = False) -> Model:
    model = Model(CONFIGS[multi])
    chunks = [some_chunk(60, seed=c, values=20, multi=multi) for c in range(cycles)]
    outcomes = sustain(model, chunks, job_of(model), SETTING, ENTROPIC)
    assert {o.status for o in outcomes} == {Status.RETAINED}
    return model


@pytest.mark.parametrize("multi", [False, True])
def test_every_vector_is_there_once_with_its_norm_and_updates(multi: bool) -> None:
    """Vectors of the chunk are those after training, the others have not changed."""
    model = model_after(2, multi=multi)
    chunk = some_chunk(60, seed=9, values=30, multi=multi)
    before = model.gather(chunk, 2, mu0=ENTROPIC.mu0)
    done = train(job_of(model), chunk, before.tables, SETTING, ENTROPIC)
    frame = norm_table(model, chunk, before, done)
    model.scatter(chunk, 2, before, done.tables)
    names = [f.name for f in model.config.spec.features]
    wanted = {
        (names[feature], value): (float(side.inf[row]), int(side.updates[row]))
        for side in (model.user, model.ad)
        for (feature, value), row in side.index.items()
    }
    got = {
        (row.feature, row.value): (float(row.norm), int(row.updates)) for row in frame.itertuples()
    }
    assert len(frame) == len(got)
    assert got == wanted


def test_the_scatter_of_an_abort_counts_the_events_that_were_done() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(500)
    before = model.gather(chunk, 0)
    done = train(job_of(model), chunk, before.tables, HOT, NONE)
    divergence = done.outcome.divergence
    assert divergence is not None
    frame = norm_table(model, chunk, before, done)
    events = done.outcome.events_done
    assert frame.updates.sum() == 5 * events < 5 * 500
    worst = frame.loc[frame.norm.idxmax()]
    assert (worst.feature, worst.value, worst.norm) == (
        divergence.feature,
        divergence.value,
        pytest.approx(divergence.norm),
    )
    assert (frame.norm >= 15).sum() >= 1


@pytest.mark.parametrize("multi", [False, True])
def test_updates_are_counted_slot_by_slot(multi: bool) -> None:
    chunk = some_chunk(40, multi=multi)
    for slots, keys in ((chunk.users, chunk.user_keys), (chunk.ads, chunk.ad_keys)):
        np.testing.assert_array_equal(updates_by(slots, 40, len(keys)), keys.count)
        assert not np.any(updates_by(slots, 0, len(keys)))
        halves = updates_by(slots, 20, len(keys))
        assert np.all(halves <= keys.count)
        assert halves.sum() == slots.start[20]


def test_a_line_of_models_learns() -> None:
    """The same chunk many times: each cycle starts where the last one ended."""
    model = Model(CONFIGS[False])
    chunk = some_chunk(300)
    outcomes = sustain(model, [chunk] * 4, job_of(model), SETTING, ENTROPIC)
    losses = [outcome.logloss for outcome in outcomes]
    assert losses == sorted(losses, reverse=True)
    assert model.cycle == 3


def test_a_diverged_cycle_leaves_the_model_as_it_was() -> None:
    model = model_after(1)
    chunk = some_chunk(500)
    was = vectors_of(model.gather(chunk, 1).tables, model.shape)[1].copy()
    outcomes = sustain(model, [chunk], job_of(model), HOT, NONE)
    assert [outcome.status for outcome in outcomes] == [Status.DIVERGED]
    assert model.cycle == 0
    np.testing.assert_array_equal(vectors_of(model.gather(chunk, 1).tables, model.shape)[1], was)
