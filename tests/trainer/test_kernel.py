"""What the kernel promises besides its numbers: construction, order, purity and untouched rows."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracle import DUAL, Event, Oracle
from support.strategies import PROPERTY, every_rule, examples, geometries, of_rule, starts
from support.worlds import (
    World,
    copied,
    first_state,
    make_world,
    padding_of,
    state_of,
    tables_of,
    touched_rows,
    train_kernel,
)
from trainer.contract.examples import required_parameters
from trainer.geometry import PARTS
from trainer.kernel import Tables
from trainer.predict import predict_block
from trainer.scoring import NO_NUMBERS
from trainer.static_shape import StaticShape

dual_rule = pytest.mark.parametrize("rule", [of_rule(rule) for rule in DUAL])


def digest(tables: Tables) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in tables)).hexdigest()


def rows_only(world: World, tables: Tables) -> list[bytes]:
    """All state but the scratch rows behind the user's."""
    size = PARTS * world.shape.user_padded * world.k
    return [tables.user[:-size].tobytes(), *(array.tobytes() for array in tables[1:])]


# -- the construction ---------------------------------------------------------------------------


def probe(k: int, overlap: int, alone: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The user's vector that the kernel builds, entry by entry, and the features' vectors.

    The entries of an ad's vector are the derivatives of the logit: with one ad for every entry,
    one there and zero elsewhere, the logits are the user's vector. Feature vectors hold different
    primes, so that products tell their factors.
    """
    world = make_world(
        0,
        (k, overlap, alone, 1),
        multi=False,
        rule="none",
        holds={},
        events=1,
        rates=(1.0, 1.0, 0.5),
        values=1,
    )
    d, n = world.lengths
    event = world.events[0]
    events = tuple(Event(0, event.user, (((j, 1.0),),)) for j in range(n))
    world = replace(world, events=events, values=max(n, 1))
    state = first_state(world, 0, size=0.0, sums=0.0)
    state.bias = 0.0
    primes = np.array([p for p in range(2, 2500) if all(p % q for q in range(2, int(p**0.5) + 1))])
    vectors = [primes[f * d : (f + 1) * d].astype(np.float64) for f in range(k)]
    for feature, bag in enumerate(event.user):
        state.user.theta[bag[0][0]] = vectors[feature]
    state.ad.theta[:n] = np.eye(n)
    logits = np.empty(n, np.float32)
    tables = tables_of(world, state)
    predict_block(world.slots("user"), world.slots("ad"), tables, world.shape, NO_NUMBERS, logits)
    return logits, vectors


def test_the_papers_figure() -> None:
    """K=3, o=4, s=2 (d=10, N=18): ones in the empty entries, and entrywise products."""
    built, vectors = probe(3, 4, 2)
    assert (len(built), [len(v) for v in vectors]) == (18, [10, 10, 10])
    filled = np.ones((3, 18))
    columns = {
        0: [*range(8), 12, 13],  # age: with gender, with geo, alone
        1: [*range(4), *range(8, 12), 14, 15],  # gender: with age, with geo, alone
        2: [*range(4, 12), 16, 17],  # geo: with age, with gender, alone
    }
    for feature, places in columns.items():
        filled[feature, places] = vectors[feature]
    np.testing.assert_array_equal(built, filled.prod(axis=0))


@settings(PROPERTY, max_examples=examples(60))
@given(geometries)
def test_every_pair_shares_o_entries_and_every_feature_keeps_s(
    geometry: tuple[int, int, int, int],
) -> None:
    """Each entry of a feature's vector is used exactly once, in any order."""
    k, overlap, alone, _ = geometry
    built, vectors = probe(k, overlap, alone)
    owner = {int(p): f for f, vector in enumerate(vectors) for p in vector}
    met: list[int] = []
    pairs: dict[frozenset[int], int] = {}
    for entry in built.astype(int).tolist():
        factors = [p for p in owner if entry % p == 0]
        assert np.prod(factors) == entry
        met += factors
        features = frozenset(owner[p] for p in factors)
        assert len(features) == len(factors)
        pairs[features] = pairs.get(features, 0) + 1
    assert sorted(met) == sorted(owner)
    wanted = {frozenset([f]): alone for f in range(k)}
    wanted |= {frozenset([f, g]): overlap for f in range(k) for g in range(f)}
    assert pairs == {features: count for features, count in wanted.items() if count}


# -- order and purity ---------------------------------------------------------------------------


@every_rule
@settings(PROPERTY, max_examples=examples(12))
@given(data=st.data())
def test_the_contract_of_a_rule(rule: str, data: st.DataObject) -> None:
    """Any rule: halves make a whole, padding stays zero, inputs stay, results are repeatable."""
    world, start = data.draw(starts(rule, events=9, hot=True))
    cut = data.draw(st.integers(0, 9))
    whole, parts, again = (tables_of(world, start) for _ in range(3))
    bad, margin = train_kernel(world, whole)
    first, _ = train_kernel(world, parts, 0, cut)
    second = train_kernel(world, parts, cut, 9)[0] if first < 0 else first
    assert (second, digest(parts)) == (bad, digest(whole))
    bad_again, margin_again = train_kernel(world, again)
    assert (bad_again, digest(again), margin_again.tobytes()) == (
        bad,
        digest(whole),
        margin.tobytes(),
    )
    if bad < 0:
        assert all(np.all(np.isfinite(array)) for array in whole)
        end = state_of(world, whole, start)
        for side in ("user", "ad"):
            entries = getattr(end, side).theta[touched_rows(world.events, side)]
            assert np.max(np.abs(entries)) < world.rates.tau
        assert not np.any(padding_of(world, whole))
    if rule in DUAL:
        low, high = np.float32(world.holds["mu_floor"]), np.float32(world.holds["mu_ceiling"])
        mu = whole.ad_mu[touched_rows(world.events[: bad + 1 or None], "ad")]
        assert np.all((low <= mu) & (mu <= high))
    else:
        assert np.array_equal(whole.ad_mu, tables_of(world, start).ad_mu)


@every_rule
@pytest.mark.parametrize("multi", [False, True])
def test_untouched_rows_stay_identical(rule: str, multi: bool) -> None:
    world = make_world(
        1,
        (3, 3, 1, 2),
        multi=multi,
        rule=rule,
        holds=required_parameters(rule),
        events=3,
        rates=(0.5, 1.0, 0.5),
        values=8,
    )
    start = first_state(world, 2, size=0.3, sums=1.0)
    before = tables_of(world, start)
    after = copied(before)
    bad, _ = train_kernel(world, after)
    assert bad == -1
    for side, width, name in (("user", world.shape.user_padded, "user_mu"), ("ad", 0, "ad_mu")):
        touched = touched_rows(world.events, side)
        rows = len(getattr(start, side).theta)
        size = PARTS * (width or world.shape.ad_padded)
        for row in range(rows):
            old, new = (getattr(t, side)[row * size : (row + 1) * size] for t in (before, after))
            assert np.array_equal(old, new) == (row not in touched)
            if row not in touched:
                assert getattr(before, name)[row] == getattr(after, name)[row]
        assert 0 < len(touched) < rows


@pytest.mark.parametrize(
    ("geometry", "multi", "rule", "holds"),
    [
        ((3, 4, 2, 2), False, "entropic", {"rho": 0.1, "dual_step": 3.0}),
        pytest.param((2, 1, 1, 2), True, "clippy", {}, marks=pytest.mark.slow),
        ((3, 4, 2, 2), False, "none", {}),
    ],
)
@pytest.mark.parametrize("reference", [False, True])
def test_a_fixed_shape_gives_the_same_bits(
    geometry: tuple[int, int, int, int],
    multi: bool,
    rule: str,
    holds: dict[str, float],
    reference: bool,
) -> None:
    world = make_world(
        9,
        geometry,
        multi=multi,
        rule=rule,
        holds=holds,
        events=300,
        rates=(0.8, 0.7, 0.63),
        reference=reference,
    )
    start = first_state(world, 8, size=0.3, sums=0.0)
    plain, fixed = tables_of(world, start), tables_of(world, start)
    bad, margin = train_kernel(world, plain)
    assert bad == -1
    fixed_bad, fixed_margin = train_kernel(world, fixed, fixed=True)
    assert (fixed_bad, fixed_margin.tobytes()) == (bad, margin.tobytes())
    assert rows_only(world, fixed) == rows_only(world, plain)


def test_the_two_accuracies_differ_little_and_differ() -> None:
    ends = []
    for reference in (True, False):
        world = make_world(
            9,
            (3, 4, 2, 2),
            multi=False,
            rule="none",
            holds={},
            events=300,
            rates=(0.8, 0.7, 0.63),
            reference=reference,
        )
        tables = tables_of(world, first_state(world, 8, size=0.3, sums=0.0))
        assert train_kernel(world, tables)[0] == -1
        ends.append(tables.ad)
    assert not np.array_equal(*ends)
    np.testing.assert_allclose(*ends, rtol=1e-3, atol=1e-4)


def test_predictions_are_the_margins_of_training() -> None:
    """predict_block sees what train_block sees before its first step, and changes no row."""
    for multi in (False, True):
        world = make_world(
            4, (3, 2, 3, 2), multi=multi, rule="none", holds={}, events=50, rates=(0.5, 1.0, 0.5)
        )
        start = first_state(world, 3, size=0.5, sums=0.0)
        tables = tables_of(world, start)
        before = rows_only(world, tables)
        logits = np.empty(50, np.float32)
        users, ads = world.slots("user"), world.slots("ad")
        predict_block(users, ads, tables, world.shape, NO_NUMBERS, logits)
        assert rows_only(world, tables) == before
        for number in range(50):
            own = tables_of(world, start)
            _, margin = train_kernel(world, own, number, number + 1)
            sign = -1 if world.events[number].click else 1
            assert sign * margin[number] == logits[number]
        wanted = [start.logit(event) for event in world.events]
        np.testing.assert_allclose(logits, wanted, rtol=1e-5, atol=1e-5)


def test_training_after_the_event_that_diverged_is_never_done() -> None:
    """The tables are as that step left them, and later margins are not written."""
    world = make_world(
        2, (2, 2, 2, 1), multi=False, rule="none", holds={}, events=30, rates=(0.5, 1.0, 0.5)
    )
    start = first_state(world, 2, size=0.3, sums=0.0)
    row = world.events[4].ad[0][0][0]
    start.ad.theta[row, 3] = 40.0
    first = next(i for i, e in enumerate(world.events) if e.ad[0][0][0] == row)
    stopped, shorter = tables_of(world, start), tables_of(world, start)
    bad, margin = train_kernel(world, stopped)
    train_kernel(world, shorter, 0, first + 1)
    assert bad == first
    assert rows_only(world, stopped) == rows_only(world, shorter)
    assert np.all(margin[first + 1 :] == np.float32(-1e30))


# -- multipliers --------------------------------------------------------------------------------


def dual_world(rule: str, **holds: float) -> tuple[World, Oracle]:
    world = make_world(
        6, (2, 3, 2, 2), multi=False, rule=rule, holds=holds, events=60, rates=(1e-6, 1.0, 0.5)
    )
    return world, first_state(world, 6, size=2.0, sums=0.0)


@dual_rule
def test_mu_rises_to_its_ceiling_and_no_further(rule: str) -> None:
    extra = {"factor": 3.0} if rule == "naive" else {"dual_step": 5.0}
    world, start = dual_world(rule, rho=1e-3, mu_ceiling=7.0, **extra)
    tables = tables_of(world, start)
    train_kernel(world, tables)
    assert np.max(tables.user_mu) == np.max(tables.ad_mu) == np.float32(7.0)


@dual_rule
def test_mu_sinks_to_its_floor_and_rises_again(rule: str) -> None:
    extra = {"factor": 3.0} if rule == "naive" else {"dual_step": 5.0}
    world, start = dual_world(rule, rho=100.0, mu_floor=0.03, **extra)
    tables = tables_of(world, start)
    train_kernel(world, tables)
    assert np.min(tables.user_mu) == np.min(tables.ad_mu) == np.float32(0.03)
    hot, _ = dual_world(rule, rho=1e-3, mu_floor=0.03, **extra)
    low = tables.ad_mu.copy()
    train_kernel(hot, tables)
    assert np.all(tables.ad_mu > low)


@pytest.mark.parametrize(("rho", "exponent"), [(1e-3, 50.0), (1e30, -50.0)])
def test_the_entropic_exponent_cannot_overflow(rho: float, exponent: float) -> None:
    """A dual step of 1e30 asks for e**1e30; the exponent is held to 50."""
    world, start = dual_world("entropic", rho=rho, dual_step=1e30, mu_ceiling=1e30, mu_floor=0.0)
    tables = tables_of(world, start)
    bad, _ = train_kernel(world, tables, 0, 1)
    row = world.events[0].ad[0][0][0]
    assert bad == -1
    assert tables.ad_mu[row] == pytest.approx(start.ad.mu[row] * np.exp(exponent), rel=1e-5)
    bad, _ = train_kernel(world, tables, 1)
    assert bad == -1
    assert all(np.all(np.isfinite(array)) for array in tables)
    assert np.all((tables.ad_mu >= 0) & (tables.ad_mu <= 1e30))


@dual_rule
def test_the_implicit_step_never_overshoots(rule: str) -> None:
    """With a huge mu the explicit step flips and grows a vector; the implicit one shrinks it."""
    extra = {} if rule == "naive" else {"dual_step": 1.0}
    ends = {}
    for implicit in (True, False):
        world = make_world(
            6,
            (1, 0, 2, 1),
            multi=False,
            rule=rule,
            holds={"rho": 0.1, "implicit": implicit, "penalty_in_sum": False, **extra},
            events=1,
            rates=(1.0, 1.0, 0.5),
            values=1,
        )
        start = first_state(world, 6, size=1.0, sums=0.0)
        start.ad.mu[:] = 100.0
        tables = tables_of(world, start)
        train_kernel(world, tables)
        ends[implicit] = np.max(np.abs(tables.ad[:2])) / np.max(np.abs(start.ad.theta))
    assert ends[True] < 0.1
    assert ends[False] > 10


def test_a_kernel_may_be_given_either_shape() -> None:
    world, _ = dual_world("naive", rho=1.0)
    assert StaticShape(world.shape).shape == world.shape
