"""Norms of vectors, and which one has diverged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from divergence.detector import norms, worst_vector

vectors = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
    elements=st.floats(-100, 100, width=32),
)


@settings(derandomize=True, deadline=None)
@given(vectors)
def test_norms(v: np.ndarray) -> None:
    found = norms(v)
    np.testing.assert_array_equal(found.inf, np.abs(v).max(axis=1))
    squares = (v.astype(np.float64) ** 2).mean(axis=1)
    np.testing.assert_allclose(found.msqr, squares, rtol=1e-5, atol=1e-38)
    d = v.shape[1]
    assert np.all(found.inf <= np.sqrt(d * found.msqr) * (1 + 1e-5) + 1e-18)  # section V


@settings(derandomize=True, deadline=None)
@given(vectors, st.floats(0.5, 99.5))
def test_the_offender_is_the_largest_that_is_not_below_tau(v: np.ndarray, tau: float) -> None:
    sizes = np.abs(v).max(axis=1)
    at = worst_vector(v, tau)
    if np.all(sizes < np.float32(tau)):
        assert at is None
    else:
        assert at == int(np.argmax(sizes))


def test_exactly_tau_offends_and_the_next_float_below_does_not() -> None:
    v = np.array([[0.0, -15.0]], np.float32)
    assert worst_vector(v, 15.0) == 0
    assert worst_vector(np.nextafter(v, np.float32(0)), 15.0) is None


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 2), (2, 1)])
def test_what_is_not_finite_offends_before_what_is_large(
    number: float, place: tuple[int, int]
) -> None:
    v = np.full((3, 3), 99.0, np.float32)
    v[place] = number
    assert worst_vector(v, 15.0) == place[0]
    assert not np.isfinite(norms(v).inf[place[0]])
    assert np.all(norms(v).inf[np.arange(3) != place[0]] == 99.0)


def test_entries_too_large_to_square_have_a_norm_all_the_same() -> None:
    v = np.array([[1e30, -2e30]], np.float32)
    found = norms(v)
    assert found.inf[0] == np.float32(2e30)
    assert found.msqr[0] == np.inf


def test_no_vectors() -> None:
    assert worst_vector(np.zeros((0, 4), np.float32), 15.0) is None
    assert norms(np.zeros((0, 4), np.float32)).inf.shape == (0,)
