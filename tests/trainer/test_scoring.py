"""Scores: what the trainer would predict, from a model that does not change."""

import numpy as np
import pyarrow as pa
import pytest

from divergence.errors import InputError
from divergence.rules import make_rule
from support.streams import CONFIGS, SETTING, job_of, some_chunk, table_of
from trainer.chunk import compile_chunk
from trainer.instance import Buffers, train
from trainer.kernel import Tables
from trainer.model import Model, rows_of
from trainer.modelfile import save_model
from trainer.predict import predict_block
from trainer.score_lines import events_by_ad, served_loglosses
from trainer.scoring import distinct_ads, log_loss, predict, score, served_logloss, sigmoid
from trainer.static_shape import StaticShape

ENTROPIC = make_rule("entropic", rho=0.1, dual_step=3.0)


def trained_model(multi: bool) -> Model:
    model, chunk = Model(CONFIGS[multi]), some_chunk(300, multi=multi)
    before = model.gather(chunk, 0, mu0=ENTROPIC.mu0)
    done = train(job_of(model), chunk, before.tables, SETTING, ENTROPIC)
    model.scatter(chunk, 0, before, done.tables)
    return model


@pytest.mark.parametrize("multi", [False, True])
def test_a_score_is_what_training_predicts_before_it_learns(multi: bool) -> None:
    """For values that the model knows and for those it does not."""
    model = trained_model(multi)
    table = table_of(40, seed=8, values=30, multi=multi)
    scores = score(model, table)
    for number in range(0, 40, 5):
        one = table.slice(number, 1)
        click = one.column("click")[0].as_py()
        chunk = some_chunk(40, seed=8, values=30, multi=multi)
        start = model.gather(chunk, 1).tables
        logit = float(predict(model.shape, chunk, start)[number])
        assert scores[number] == pytest.approx(1 / (1 + np.exp(-logit)), rel=1e-6)
        assert score(model, one)[0] == pytest.approx(scores[number], rel=1e-6)
        assert click in (0, 1)


@pytest.mark.parametrize("multi", [False, True])
def test_scoring_does_not_change_the_model(multi: bool) -> None:
    model = trained_model(multi)
    before = save_model(model)
    score(model, table_of(50, seed=3, values=60, multi=multi))
    assert save_model(model) == before


def test_labels_and_timestamps_are_not_needed() -> None:
    model, table = trained_model(False), table_of(20, seed=4)
    bare = table.drop_columns(["click", "timestamp"])
    np.testing.assert_array_equal(score(model, bare), score(model, table))
    np.testing.assert_array_equal(score(model, bare.to_pandas()), score(model, table))


def test_the_order_of_events_does_not_matter() -> None:
    model, table = trained_model(True), table_of(30, seed=5, multi=True)
    order = np.random.default_rng(0).permutation(30)
    shuffled = score(model, table.take(pa.array(order)))
    np.testing.assert_allclose(shuffled, score(model, table)[order], rtol=1e-6)


def test_an_unseen_value_is_scored_alike_every_time() -> None:
    model = trained_model(False)
    strange = table_of(3).set_column(2, "age", pa.array(["never", "seen", "never"]))
    np.testing.assert_array_equal(score(model, strange), score(model, strange))
    assert np.all((score(model, strange) > 0) & (score(model, strange) < 1))


def test_no_events_no_scores() -> None:
    assert score(trained_model(False), table_of(3).slice(0, 0)).shape == (0,)


def test_a_missing_column_is_refused() -> None:
    model = Model(CONFIGS[False])
    with pytest.raises(InputError, match=r"^the events have no column 'city'; they have click, "):
        score(model, table_of(3).drop_columns(["city"]))


@pytest.mark.parametrize(
    ("shares", "reason"),
    [
        ([1.0, -1.0], "a weight in shares is negative"),
        ([1.0, None], "a weight in shares is null or NaN"),
        ([1.0], "shares and genres differ in length"),
    ],
)
def test_a_row_that_cannot_be_scored_is_named(shares: list[float], reason: str) -> None:
    """Nothing is set aside: every event has a score, or there is none."""
    table = pa.table(
        {
            "age": ["1", "2"],
            "genres": [["a"], ["a", "b"]],
            "shares": pa.array([[1.0], shares], pa.list_(pa.float64())),
            "ad": ["x", "y"],
            "topics": [["t"], ["t"]],
        }
    )
    with pytest.raises(InputError) as caught:
        score(Model(CONFIGS[True]), table)
    assert str(caught.value) == f"row 1 cannot be scored: {reason}"


def test_buffers_do_not_show() -> None:
    model, chunk = trained_model(False), some_chunk(50, seed=6)
    tables: Tables = model.gather(chunk, 1).tables
    buffers = Buffers()
    first = predict(model.shape, chunk, tables, buffers)
    np.testing.assert_array_equal(predict(model.shape, chunk, tables, buffers), first)
    np.testing.assert_array_equal(predict(model.shape, chunk, tables), first)


@pytest.mark.parametrize("multi", [False, True])
def test_ads_that_occur_often_are_computed_once_to_the_same_bits(multi: bool) -> None:
    model, table = trained_model(multi), table_of(60, seed=6, multi=multi)
    twice = compile_chunk(pa.concat_tables([table] * 5), model.config.spec)
    tables = Buffers().copy_of(model.gather(twice, 1).tables)
    ads = distinct_ads(model.shape, twice)
    assert len(ads.rows.start) - 1 <= 60
    assert ads.number.tolist() == ads.number.tolist()[:60] * 5
    logits = np.empty(len(twice), np.float32)
    shape = StaticShape(model.shape)
    predict_block(twice.users, ads.rows, tables, shape, ads.number, logits)
    np.testing.assert_array_equal(logits, predict(model.shape, twice, tables))


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("events", [1, 7, 300])
def test_models_scored_together_have_the_bits_of_each_alone(multi: bool, events: int) -> None:
    """Their tables have the chunk's rows in other places, among others."""
    model, chunk = trained_model(multi), some_chunk(events, seed=6, values=40, multi=multi)
    shape, tables, buffers = model.shape, model.gather(chunk, 1).tables, Buffers()
    at = tuple(np.arange(len(keys))[::-1] + 2 for keys in (chunk.user_keys, chunk.ad_keys))
    models, alone = [], []
    for number in range(3):
        user, ad = (rows * np.float32(1 + number) for rows in rows_of(tables, shape))
        spread = [np.full((len(rows) + 3, *rows.shape[1:]), 9, np.float32) for rows in (user, ad)]
        for rows, place, given in zip(spread, at, (user, ad), strict=True):
            rows[place] = given
        bias = np.array([0.1 * number, 0.0])
        models.append(Tables(*spread, tables.user_mu, tables.ad_mu, bias))
        own = Tables(np.float32(1 + number) * tables.user, ad.reshape(-1), *tables[2:4], bias)
        ads = distinct_ads(shape, chunk)
        alone.append(served_logloss(shape, chunk, ads, own, buffers))
    by_ad = events_by_ad(shape, chunk)
    assert sorted(by_ad.event.tolist()) == list(range(events))
    assert served_loglosses(shape, chunk, by_ad, at, models, buffers) == alone


def test_ads_that_all_differ_are_not_numbered() -> None:
    table = table_of(40, seed=6)
    table = table.set_column(
        table.column_names.index("ad"), "ad", pa.array([f"ad {i}" for i in range(40)])
    )
    chunk = compile_chunk(table, CONFIGS[False].spec)
    ads = distinct_ads(CONFIGS[False].shape, chunk)
    assert (ads.rows, len(ads.number)) == (chunk.ads, 0)


@pytest.mark.parametrize("logit", [-1e30, -1e4, -40.0, -1.0, 0.0, 1.0, 40.0, 1e4, 1e30])
def test_probabilities_and_losses_at_any_logit(logit: float) -> None:
    logits = np.full(2, logit, np.float32)
    p = sigmoid(logits)
    assert np.all((p >= 0) & (p <= 1))
    if abs(logit) <= 40:
        np.testing.assert_allclose(p, 1 / (1 + np.exp(-logit)), rtol=1e-12)
    losses = [log_loss(logits, np.full(2, y, np.uint8)) for y in (0, 1)]
    assert losses == pytest.approx([np.logaddexp(0, logit), np.logaddexp(0, -logit)], rel=1e-6)
    assert all(np.isfinite(losses))


def test_served_and_progressive_loss_agree_where_nothing_is_learnt() -> None:
    """With steps next to nothing, the progressive log-loss is that of the model it starts from."""
    model, chunk = trained_model(False), some_chunk(200, seed=7)
    tables = model.gather(chunk, 1).tables
    served = log_loss(predict(model.shape, chunk, tables), chunk.click)
    tiny = type(SETTING)(1e-12, 1.0, 0.5)
    outcome = train(job_of(model), chunk, tables, tiny, make_rule("none")).outcome
    assert outcome.logloss == pytest.approx(served, rel=1e-6)
