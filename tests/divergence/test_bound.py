"""rho0 and the search over its multiples."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergence.bound import (
    LOGIT,
    ad_bound,
    division_of_mass,
    rho0,
    smallest_sufficient,
    user_bound,
    visible_gain,
)
from divergence.errors import InputError

lengths = st.integers(1, 100_000)


@settings(derandomize=True, deadline=None)
@given(lengths)
def test_the_closed_form_solves_the_quadratic(n: int) -> None:
    """Section V-D: t makes the two bounds equal, and rho0 is what they are then."""
    t = division_of_mass(n)
    assert t > 0
    assert 12 * t**2 - math.sqrt(n) * t - math.sqrt(n) == pytest.approx(0, abs=1e-9 * n)
    assert user_bound(n, t) == pytest.approx(rho0(n), rel=1e-12)
    assert ad_bound(n, t) == pytest.approx(rho0(n), rel=1e-12)


@settings(derandomize=True, deadline=None)
@given(lengths)
def test_rho0_sinks_with_the_length(n: int) -> None:
    assert rho0(n + 1) < rho0(n)


def test_rho0_by_hand() -> None:
    """N = 16: 288 / (24 * 4 + 8 * sqrt(52) + 16)."""
    assert rho0(16) == pytest.approx(288 / (96 + 8 * math.sqrt(52) + 16))
    assert LOGIT == 12


def test_the_bounds_are_a_heuristic() -> None:
    """The two norms multiply to 144 t / (1 + t)**2, well below 12**2."""
    t = division_of_mass(18)
    product = (12 / (1 + t)) * (12 * t / (1 + t))
    assert product == pytest.approx(144 * t / (1 + t) ** 2)
    assert 30 < product < 36


def test_no_vector_no_bound() -> None:
    with pytest.raises(InputError, match=r"^rho0 needs vectors of at least one entry, but N is 0$"):
        rho0(0)


@pytest.mark.parametrize(
    ("losses", "better", "expected"),
    [
        ([0.5, 0.5], [0.4, 0.4], True),
        ([0.5, 0.5], [0.5, 0.5], False),
        ([0.4, 0.4], [0.5, 0.5], False),
        ([0.5, 0.5], [0.4996, 0.4996], False),  # under a thousandth
        ([0.5, 0.5], [0.4994, 0.4994], True),
        ([0.5, 0.5, 0.5], [0.2, 0.6, 0.55], False),  # within two standard errors
        ([0.5], [0.4], True),
        ([float("nan"), 0.5], [9.0, 9.0], True),
        ([9.0, 9.0], [0.1, float("nan")], False),
        ([9.0, 9.0], [0.1, float("inf")], False),
        ([float("nan")], [float("nan")], False),
    ],
)
def test_a_visible_gain(losses: list[float], better: list[float], expected: bool) -> None:
    assert visible_gain(losses, better) is expected


def test_what_is_visible_may_be_chosen() -> None:
    assert visible_gain([0.5, 0.5], [0.4996, 0.4996], visible=1e-4)
    assert not visible_gain([0.5, 0.5], [0.4, 0.4], visible=0.5)


def test_the_smallest_k_beyond_which_nothing_is_gained() -> None:
    losses = {1.0: [0.6, 0.6], 2.0: [0.52, 0.52], 3.0: [0.5, 0.5], 4.0: [0.5, 0.5]}
    assert smallest_sufficient(losses) == 3.0
    assert smallest_sufficient(dict(reversed(losses.items()))) == 3.0
    assert smallest_sufficient({0.1: [0.5], 1.0: [0.5], 10.0: [0.6]}) == 0.1


def test_a_later_gain_counts() -> None:
    """k = 2 gains nothing on k = 1, but k = 3 does."""
    assert smallest_sufficient({1.0: [0.6], 2.0: [0.6], 3.0: [0.5]}) == 3.0


def test_a_lost_model_never_suffices_unless_all_are_lost() -> None:
    nan = float("nan")
    assert smallest_sufficient({1.0: [nan], 2.0: [0.9]}) == 2.0
    assert smallest_sufficient({1.0: [0.9], 2.0: [nan]}) == 1.0
    assert smallest_sufficient({1.0: [nan], 2.0: [nan]}) == 1.0


def test_a_search_without_losses() -> None:
    with pytest.raises(InputError, match=r"^the search for k needs at least one value of k$"):
        smallest_sufficient({})
    for losses in ({1.0: [0.5], 2.0: [0.5, 0.5]}, {1.0: []}):
        with pytest.raises(InputError, match=r"needs the same chunks, at least one, for every k$"):
            smallest_sufficient(losses)
