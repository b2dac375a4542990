"""Where the kernel must stop, and where it must not: thresholds, NaN and inf."""

import numpy as np
import pytest

from divergence.lanemath import CONSTANTS
from support.oracle import Event, Oracle, log_loss
from support.strategies import every_rule, of_rule
from support.worlds import (
    World,
    calm_world,
    copied,
    first_state,
    make_world,
    state_of,
    tables_of,
    train_kernel,
)
from trainer.contract.examples import required_parameters
from trainer.kernel import total_loss


def planted_world(tau: float) -> tuple[World, Oracle]:
    """K=1, o=0, s=1 and one ad feature of one value each: theta <- theta - step * slope * other."""
    world = make_world(
        0,
        (1, 0, 1, 1),
        multi=False,
        rule="none",
        holds={},
        events=1,
        rates=(1.0, 1.0, 0.0),
        tau=tau,
        values=1,
    )
    start = first_state(world, 0, size=0.0, sums=0.0)
    start.bias = 0.0
    return world, start


@pytest.mark.parametrize(("below", "expected"), [(0.0, 0), (1.0, -1)])
def test_an_entry_exactly_at_tau_counts_and_the_next_float_below_does_not(
    below: float, expected: int
) -> None:
    """Zero vectors have no gradient, so the entries that are there stay there."""
    tau = 15.0
    world, start = planted_world(tau)
    at = np.float32(tau)
    entry = np.nextafter(at, np.float32(0)) if below else at
    start.user.theta[0, 0] = entry
    start.ad.theta[0, 0] = 0.0
    event = Event(1, world.events[0].user, world.events[0].ad)
    world = World(**{**vars(world), "events": (event, event)})
    tables = tables_of(world, start)
    tables.bias[0] = 60.0  # a click that is certain: the slope is 0
    bad, _ = train_kernel(world, tables)
    assert (bad, tables.user[0]) == (expected, entry)


@pytest.mark.parametrize(("tau", "expected"), [(8.99, 0), (9.01, 1), (12.24, 1), (12.26, -1)])
def test_the_event_that_crosses_is_the_one_that_is_named(tau: float, expected: int) -> None:
    """With beta 0 a step is 2.25 times the gradient, so that three events can be done by hand.

    (user, ad) is (8, 0). A click, of slope -1/2: (8, 9). No click, of slope 1: (-12.25, -9). A
    click that is certain: nothing.
    """
    world, start = planted_world(tau)
    start.user.theta[0, 0], start.eta0 = 8.0, 4.5
    click, other = (Event(y, world.events[0].user, world.events[0].ad) for y in (1, 0))
    events, rates = (click, other, click), world.rates._replace(eta0=4.5)
    world = World(**{**vars(world), "events": events, "rates": rates})
    tables = tables_of(world, start)
    bad, _ = train_kernel(world, tables)
    assert bad == expected == start.copy().run(list(events))[1]
    end = (8, 9) if expected == 0 else (-12.25, -9)
    assert (tables.user[0], tables.ad[0]) == pytest.approx(end, rel=1e-6)


@every_rule
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("side", ["user", "ad"])
def test_a_planted_number_that_is_not_finite_is_always_found(
    rule: str, number: float, multi: bool, side: str
) -> None:
    """At the first event that touches it, wherever in the vector it is."""
    holds = required_parameters(rule)
    world = make_world(
        3, (2, 5, 4, 2), multi=multi, rule=rule, holds=holds, events=20, rates=(0.1, 1.0, 0.5)
    )
    start = first_state(world, 4, size=0.1, sums=1.0)
    width = getattr(start, side).theta.shape[1]
    for row, entry in ((0, 0), (1, width - 1), (4, width // 2)):
        state = start.copy()
        getattr(state, side).theta[row, entry] = number
        first = next(
            i
            for i, event in enumerate(world.events)
            if row in [r for bag in getattr(event, side) for r, _ in bag]
        )
        bad, _ = train_kernel(world, tables_of(world, state))
        assert bad == first


def test_a_bias_that_is_not_finite_is_found() -> None:
    world, start = calm_world("none")
    start.bias = float("nan")
    bad, _ = train_kernel(world, tables_of(world, start))
    assert bad == 0


@pytest.mark.parametrize(
    ("rule", "limit"), [of_rule("projection", {"rho": 1.0}), of_rule("max_norm", {})]
)
def test_a_step_too_long_to_square_is_a_divergence(rule: str, limit: dict[str, float]) -> None:
    """Entries of 1e20 have no float32 norm to be scaled back by."""
    world, start = planted_world(15.0)
    start.ad.theta[0, 0] = 1.0
    world = make_world(
        0,
        (1, 0, 1, 1),
        multi=False,
        rule=rule,
        holds=limit,
        events=1,
        rates=(1e20, 1.0, 0.0),
        values=1,
    )
    tables = tables_of(world, start)
    bad, _ = train_kernel(world, tables)
    assert bad == 0


# -- any logit ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [-1e30, -1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4, 1e30])
@pytest.mark.parametrize("click", [0, 1])
def test_any_logit_is_stable(bias: float, click: int) -> None:
    """Loss and gradient are finite, the loss is right, an event that was certain moves nothing."""
    world, start = calm_world("none")
    events = tuple(Event(click, e.user, e.ad) for e in world.events[:8])
    world = World(**{**vars(world), "events": events})
    start.bias = bias
    tables = tables_of(world, start)
    before = copied(tables)
    bad, margin = train_kernel(world, tables)
    loss = total_loss(margin, 8, CONSTANTS)
    logits, _ = start.copy().run(list(events))
    expected = sum(log_loss(x, click) for x in logits)
    assert bad == -1
    assert all(np.all(np.isfinite(array)) for array in tables)
    assert loss == pytest.approx(expected, rel=2e-6, abs=8 * 1.2e-7)
    surprise = bias * (1 - 2 * click)  # large where the label is the opposite of what is sure
    if abs(surprise) >= 100:
        moved = state_of(world, tables, start).ad.theta - state_of(world, before, start).ad.theta
        assert np.any(moved) == (surprise > 0)


# -- sums ---------------------------------------------------------------------------------------


def test_sums_of_float32_do_not_stagnate() -> None:
    """At 1e7 a float32 is 1 apart: gradients of 0.1 vanish from a plain sum, not from a pair."""
    world, start = calm_world("none", events=2_000)
    world = World(**{**vars(world), "rates": world.rates._replace(eta0=1e-9)})
    start.user.sums[:] = start.ad.sums[:] = 1e7
    start.eta0 = 1e-9
    tables = tables_of(world, start)
    train_kernel(world, tables)
    oracle = start.copy()
    oracle.run(list(world.events))
    kernel = state_of(world, tables, start)
    for got, wanted in ((kernel.user.sums, oracle.user.sums), (kernel.ad.sums, oracle.ad.sums)):
        grown = wanted - 1e7
        assert np.max(grown) > 20
        np.testing.assert_allclose(got - 1e7, grown, rtol=1e-4, atol=1e-4)


def test_a_sum_of_nothing_is_no_division_by_zero() -> None:
    """A coordinate whose gradients were all zero has a sum of zero, and no step."""
    world, start = planted_world(15.0)
    world = World(**{**vars(world), "rates": world.rates._replace(beta=0.7)})
    tables = tables_of(world, start)
    bad, _ = train_kernel(world, tables)
    assert bad == -1
    assert not np.any(tables.user)
    assert not np.any(tables.ad)
