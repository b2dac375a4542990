"""The model: draws, gathering and scattering, sums, counts, expiry and the reuse of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.strategies import examples
from support.streams import (
    CONFIGS,
    SINGLE,
    changed,
    chunk_of,
    contents,
    some_chunk,
    table_of,
    trained,
)
from trainer.chunk import Chunk
from trainer.initial_vectors import initial_vectors
from trainer.model import Model, ModelConfig, rows_of, vectors_of

# -- gathering ----------------------------------------------------------------------------------


@pytest.mark.parametrize("multi", [False, True])
def test_new_values_get_the_vector_of_their_draw(multi: bool) -> None:
    model, chunk = Model(CONFIGS[multi]), some_chunk(30, multi=multi)
    before = model.gather(chunk, 0, mu0=0.25)
    spec, config = model.config.spec, model.config
    for vectors, keys, length in zip(
        vectors_of(before.tables, model.shape),
        (chunk.user_keys, chunk.ad_keys),
        (model.shape.user, model.shape.ad),
        strict=True,
    ):
        assert len(vectors) == len(keys)
        for vector, feature, value in zip(vectors, keys.feature, keys.values, strict=True):
            name = spec.features[feature].name
            drawn = initial_vectors(config.seed, name, [value], length, config.init_std)[0]
            np.testing.assert_array_equal(vector, drawn)
    user, ad = rows_of(before.tables, model.shape)
    assert not np.any(user[:, 1:])
    assert not np.any(ad[:, 1:])
    assert not np.any(user[:, :, model.shape.user :])
    assert not np.any(ad[:, :, model.shape.ad :])
    assert np.all(before.tables.user_mu == 0.25)
    assert np.all(before.user_rows == -1)
    assert not any(array.flags.writeable for array in before.tables)


def test_gathering_does_not_change_the_model() -> None:
    model = Model(CONFIGS[False])
    trained(model, some_chunk(40), 0)
    before, bias, size = contents(model), model.bias.copy(), len(model)
    model.gather(some_chunk(40, seed=1, values=50), 5, mu0=3.0, sums_kept=0.5)
    assert (contents(model), len(model), model.cycle) == (before, size, 0)
    np.testing.assert_array_equal(model.bias, bias)


def test_a_working_set_is_a_copy() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(20)
    trained(model, chunk, 0)
    before = model.gather(chunk, 1)
    was = before.tables.ad.copy()
    model.ad.rows[:] = 9.0
    np.testing.assert_array_equal(before.tables.ad, was)


def test_what_is_scattered_is_gathered_again() -> None:
    model, chunk = Model(CONFIGS[True]), some_chunk(40, multi=True)
    before = model.gather(chunk, 0)
    after = changed(before, model)
    model.scatter(chunk, 0, before, after)
    again = model.gather(chunk, 1, mu0=77.0)
    for ours, theirs in zip(
        rows_of(again.tables, model.shape), rows_of(after, model.shape), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(again.tables.user_mu, after.user_mu)
    np.testing.assert_array_equal(again.tables.bias, after.bias)
    assert np.all(again.user_rows >= 0)


def test_the_order_of_a_chunk_does_not_matter_to_the_model() -> None:
    """Rows follow frequency, vectors follow keys."""
    model = Model(CONFIGS[False])
    trained(model, some_chunk(50), 0)
    other = some_chunk(50, seed=9)
    gathered = model.gather(other, 1)
    _, ad = vectors_of(gathered.tables, model.shape)
    for vector, feature, value in zip(ad, other.ad_keys.feature, other.ad_keys.values, strict=True):
        row = model.ad.index.get((int(feature), value))
        if row is not None:
            np.testing.assert_array_equal(vector, model.ad.rows[row, 0, : model.shape.ad])


# -- scattering ---------------------------------------------------------------------------------


def test_untouched_vectors_stay_identical() -> None:
    model = Model(CONFIGS[False])
    trained(model, some_chunk(200, values=40), 0)
    before = contents(model)
    chunk = some_chunk(5, seed=2, values=40)
    trained(model, chunk, 1)
    touched = set()
    for keys in (chunk.user_keys, chunk.ad_keys):
        touched |= set(zip(keys.feature.tolist(), keys.values, strict=True))
    after = contents(model)
    for key, state in before.items():
        assert (after[key] == state) == (key not in touched)


@pytest.mark.parametrize("multi", [False, True])
def test_updates_are_counted_over_all_cycles(multi: bool) -> None:
    model = Model(CONFIGS[multi])
    wanted: dict[tuple[int, str], int] = {}
    for cycle in range(3):
        chunk = some_chunk(25, seed=cycle, multi=multi)
        trained(model, chunk, cycle)
        for keys in (chunk.user_keys, chunk.ad_keys):
            for key, count in zip(
                zip(keys.feature.tolist(), keys.values, strict=True),
                keys.count.tolist(),
                strict=True,
            ):
                wanted[key] = wanted.get(key, 0) + count
    assert {key: state[2] for key, state in contents(model).items()} == wanted


def test_norms_are_kept_with_the_vectors() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(30)
    trained(model, chunk, 0)
    for side, length in ((model.user, model.shape.user), (model.ad, model.shape.ad)):
        alive = side.alive()
        vectors = side.rows[alive, 0, :length]
        np.testing.assert_array_equal(side.inf[alive], np.abs(vectors).max(axis=1))
        np.testing.assert_allclose(side.msqr[alive], (vectors**2).mean(axis=1), rtol=1e-6)


def test_changes_name_the_rows_that_were_written() -> None:
    model = Model(CONFIGS[False])
    chunk = some_chunk(30)
    changes = trained(model, chunk, 0)
    keys = [model.ad.keys[row] for row in changes.ad_rows]
    assert keys == list(zip(chunk.ad_keys.feature.tolist(), chunk.ad_keys.values, strict=True))
    assert changes.dropped == ()
    assert changes.with_dropped(((0, "x"),)).with_dropped(((1, "y"),)).dropped == (
        (0, "x"),
        (1, "y"),
    )


# -- sums ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kept", "factor"), [(1.0, 1.0), (0.5, 0.125), (0.0, 0.0)])
def test_sums_are_kept_or_decay_or_are_reset(kept: float, factor: float) -> None:
    """For every cycle since a row was last seen; the bias is seen by every cycle of the model."""
    model, chunk = Model(CONFIGS[False]), some_chunk(30)
    trained(model, chunk, 4)
    before = contents(model)
    user, ad = rows_of(model.gather(chunk, 7, sums_kept=kept).tables, model.shape)
    for rows, side, found in (
        (user, model.user, model.gather(chunk, 7).user_rows),
        (ad, model.ad, model.gather(chunk, 7).ad_rows),
    ):
        np.testing.assert_array_equal(rows[:, 0], side.rows[found, 0])
        np.testing.assert_allclose(rows[:, 1:], side.rows[found, 1:] * factor, rtol=1e-6)
    bias = model.gather(chunk, 7, sums_kept=kept).tables.bias
    assert (bias[0], bias[1]) == (model.bias[0], pytest.approx(model.bias[1] * factor))
    assert contents(model) == before


def test_the_first_cycle_has_no_sums_to_decay() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(30)
    tables = model.gather(chunk, 3, sums_kept=0.0).tables
    assert np.all(np.isfinite(tables.ad))
    assert tables.bias.tolist() == [0.0, 0.0]


# -- expiry -------------------------------------------------------------------------------------


def keys_of(*chunks: Chunk) -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    for chunk in chunks:
        for keys in (chunk.user_keys, chunk.ad_keys):
            found |= set(zip(keys.feature.tolist(), keys.values, strict=True))
    return found


@settings(derandomize=True, deadline=None, max_examples=examples(30))
@given(st.lists(st.integers(0, 5), min_size=2, max_size=12), st.integers(1, 4))
def test_what_is_unseen_for_long_is_dropped(seeds: list[int], expire_after: int) -> None:
    """After every cycle, what is alive is what the last cycles have seen, with their counts."""
    model = Model(CONFIGS[False])
    chunks = [some_chunk(4, seed=seed, values=12) for seed in seeds]
    for cycle, chunk in enumerate(chunks):
        alive = set(contents(model))
        trained(model, chunk, cycle)
        dropped = model.expire(cycle - expire_after)
        recent = chunks[max(0, cycle - expire_after + 1) : cycle + 1]
        assert set(contents(model)) == keys_of(*recent)
        assert set(dropped) == (alive | keys_of(chunk)) - keys_of(*recent)
        assert len(set(dropped)) == len(dropped)
        assert len(model) == len(keys_of(*recent))
        for side in (model.user, model.ad):
            rows = side.alive()
            assert len(set(rows.tolist())) == len(rows)
            assert [side.keys[row] for row in rows] == list(side.index)


def test_a_value_that_comes_back_starts_anew() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(20)
    trained(model, chunk, 0, mu0=0.5)
    model.expire(0)
    assert len(model) == 0
    again = model.gather(chunk, 5, mu0=0.5)
    fresh = Model(CONFIGS[False]).gather(chunk, 5, mu0=0.5)
    for ours, theirs in zip(again.tables[:4], fresh.tables[:4], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert np.all(again.user_rows == -1)
    model.scatter(chunk, 5, again, changed(again, model))
    assert [state[2:] for state in contents(model).values()] == [
        (count, 5) for keys in (chunk.user_keys, chunk.ad_keys) for count in keys.count.tolist()
    ]


def test_rows_are_used_again_after_expiry() -> None:
    model = Model(CONFIGS[False])
    trained(model, some_chunk(60, values=30), 0)
    size = len(model.ad.keys)
    model.expire(0)
    trained(model, some_chunk(60, seed=1, values=30), 1)
    assert len(model.ad.keys) <= size + 5
    assert len(model.ad.keys) == len(model.ad.index) + len(model.ad.free)


def test_norms_of_dropped_vectors_are_gone() -> None:
    model = Model(CONFIGS[False])
    trained(model, some_chunk(20), 0)
    model.expire(0)
    assert not np.any(model.ad.inf)
    assert not np.any(model.ad.msqr)


def test_expiry_twice_in_a_row_drops_nothing_more() -> None:
    model = Model(CONFIGS[False])
    trained(model, some_chunk(20), 0)
    assert len(model.expire(0)) > 0
    assert model.expire(0) == ()


def test_a_cycle_scattered_twice_expires_once() -> None:
    """A replayed cycle, or two chunks of one: each vector is dropped once."""
    model, chunk = Model(CONFIGS[False]), some_chunk(20)
    trained(model, chunk, 0)
    trained(model, chunk, 0)
    dropped = model.expire(0)
    assert len(dropped) == len(set(dropped)) == len(keys_of(chunk))
    assert len(model) == 0


def test_bookkeeping_does_not_grow_with_cycles() -> None:
    """Memory follows the vectors, not the history."""
    model, chunk = Model(CONFIGS[False]), some_chunk(200, values=100)
    for cycle in range(120):
        trained(model, chunk, cycle)
        model.expire(cycle - 200)
    for side in (model.user, model.ad):
        listed = sum(len(rows) for group in side.rows_of_cycle.values() for rows in group)
        assert listed == side.listed <= 9 * len(side.keys) + 1024
    assert set(model.expire(119)) == keys_of(chunk)


def test_a_model_grows_beyond_its_first_rows() -> None:
    model = Model(ModelConfig(SINGLE, 0, 1))
    table = table_of(3000, values=2500)
    chunk = chunk_of(table, SINGLE)
    trained(model, chunk, 0)
    assert len(model) == len(chunk.user_keys) + len(chunk.ad_keys) > 5000
    again = model.gather(chunk, 1)
    assert len(set(again.user_rows.tolist())) == len(chunk.user_keys)
