"""The mean of several models as one wide model."""

import numpy as np
import pyarrow as pa
import pytest

from trainer.chunk import compile_chunk
from trainer.features import Feature, FeatureSpec
from trainer.instance import Buffers
from trainer.mean_model import mean_bias, mean_model, member_of, put_member, put_members
from trainer.model import Model, ModelConfig, WorkingSet
from trainer.modelfile import load_model, save_model
from trainer.vectors import side_vectors

SPEC = FeatureSpec(
    (Feature("age"), Feature("geo"), Feature("topics", multi=True)),
    (Feature("ad"), Feature("category")),
)
RNG = np.random.default_rng(5)
EVENTS = pa.table(
    {
        "age": RNG.choice(["young", "old"], 40),
        "geo": RNG.choice(["n", "s", "e", "w"], 40),
        "topics": [list(RNG.choice(["a", "b", "c"], n)) for n in RNG.integers(0, 4, 40)],
        "ad": RNG.choice(["1", "2", "3", "4", "5"], 40),
        "category": RNG.choice(["x", "y"], 40),
        "click": RNG.integers(0, 2, 40),
    }
)


def some_model(config: ModelConfig) -> Model:
    """A model that has learnt something about every value."""
    model, chunk = Model(config), compile_chunk(EVENTS, SPEC)
    start = model.gather(chunk, 0)
    tables = start.tables._replace(
        user=RNG.normal(size=start.tables.user.shape).astype(np.float32),
        ad=RNG.normal(size=start.tables.ad.shape).astype(np.float32),
        bias=RNG.normal(size=2),
    )
    model.scatter(chunk, 0, start, tables)
    return model


def logits(model: Model) -> np.ndarray:
    user, ad = side_vectors(model, EVENTS, "user"), side_vectors(model, EVENTS, "ad")
    return (user * ad).sum(axis=1) + model.bias[0]


@pytest.mark.parametrize(("overlap", "alone"), [(2, 2), (3, 1), (1, 0), (9, 8)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_its_logits_are_the_mean_of_theirs(overlap: int, alone: int, count: int) -> None:
    models = [some_model(ModelConfig(SPEC, overlap, alone)) for _ in range(count)]
    wanted = np.mean([logits(model) for model in models], axis=0)
    wide = mean_model(models)
    assert wide.shape.ad == count * models[0].shape.ad
    np.testing.assert_allclose(logits(wide), wanted, rtol=1e-4, atol=1e-5)
    again = load_model(save_model(wide), "again", wide.config)
    np.testing.assert_array_equal(logits(again), logits(wide))


def test_a_value_that_no_model_has_seen_adds_nothing() -> None:
    wide = mean_model([some_model(ModelConfig(SPEC, 2, 2)) for _ in range(2)])
    unseen = EVENTS.set_column(3, "ad", pa.array(["new"] * 40)).set_column(
        4, "category", pa.array(["new"] * 40)
    )
    assert np.abs(side_vectors(wide, unseen, "ad")).max() < 1e-20


def test_models_of_other_chunks_have_no_mean() -> None:
    one, other = (some_model(ModelConfig(SPEC, 2, 2)) for _ in range(2))
    other.drop([(3, "1")])
    with pytest.raises(ValueError, match="lines of one arm"):
        mean_model([one, other])


@pytest.mark.parametrize("count", [2, 3])
def test_a_member_is_taken_out_as_it_was(count: int) -> None:
    config = ModelConfig(SPEC, 2, 1)
    models = [some_model(config) for _ in range(count)]
    wide = mean_model([models[0], *models[:-1]])
    for seat, model in enumerate(models):
        put_member(wide, seat, model)
    wide.bias[:] = mean_model(models).bias
    assert save_model(wide) == save_model(mean_model(models))
    for seat, model in enumerate(models):
        again = member_of(wide, seat, config, model.bias, 0.0)
        for mine, its, length in (
            (again.user, model.user, model.shape.user),
            (again.ad, model.ad, model.shape.ad),
        ):
            assert mine.index.keys() == its.index.keys()
            rows = [its.index[key] for key in mine.index]
            found, wanted = mine.rows[mine.alive(), :, :length], its.rows[rows, :, :length]
            np.testing.assert_allclose(found, wanted, rtol=3e-7)
            np.testing.assert_array_equal(mine.seen[mine.alive()], its.seen[rows])
        once_more = member_of(mean_model([again] * count), 0, config, model.bias, 0.0)
        assert save_model(once_more) == save_model(again), "to the bit from then on"
    assert logits(again) == pytest.approx(logits(models[-1]), rel=1e-3, abs=1e-4)


def test_a_chunk_changes_the_mean_as_it_changes_the_members() -> None:
    """One member trains on values that are new, the other skips the chunk."""
    config = ModelConfig(SPEC, 2, 2)
    models = [some_model(config) for _ in range(2)]
    wide = mean_model(models)
    table = EVENTS.set_column(3, "ad", pa.array(RNG.choice(["4", "5", "6"], 40)))
    chunk = compile_chunk(table, SPEC)
    rows = []
    for model, trains in zip(models, (True, False), strict=True):
        start = model.gather(chunk, 1, sums_kept=0.5)
        tables = start.tables
        if trains:
            tables = tables._replace(ad=tables.ad + 1, user=tables.user - 1)
        rows.append(tables if trains else None)
        model.scatter(chunk, 1, start, tables)
    found = wide.gather(chunk, 1, sums_kept=0.5)
    start = WorkingSet(Buffers().copy_of(found.tables), found.user_rows, found.ad_rows)
    put_members(start, wide.shape, config, chunk, rows)
    bias = mean_bias(np.array([model.bias for model in models]))
    wide.scatter(chunk, 1, start, start.tables)
    wide.bias[:] = bias
    wanted = mean_model(models)
    for mine, its in ((wide.user, wanted.user), (wide.ad, wanted.ad)):
        assert list(mine.index) == list(its.index)
        np.testing.assert_array_equal(mine.rows[mine.alive()], its.rows[its.alive()])
        np.testing.assert_array_equal(mine.inf[mine.alive()], its.inf[its.alive()])
        np.testing.assert_array_equal(mine.updates[mine.alive()], its.updates[its.alive()])
    np.testing.assert_array_equal(wide.bias, wanted.bias)
