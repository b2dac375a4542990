"""Powers, exponentials and softplus: as accurate as the module says, and stable everywhere."""

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from divergence.lanemath import (
    CONSTANTS,
    begin_constants,
    begin_fast_constants,
    begin_fast_power,
    begin_power,
    end_constants,
    end_fast_constants,
    end_fast_power,
    end_power,
    exp_lanes,
    softplus_lanes,
)
from divergence.simd import WIDTH, load, splat, store

Floats = NDArray[np.float32]

EPS = 2.0**-24
BETAS = [0.0, 0.1, 0.25, 0.5, 0.63, 0.9, 1.0, 1.37, 1.5, 2.0]


@njit(error_model="numpy")
def powers(x, beta, reference, out, k):  # type: ignore[no-untyped-def]
    begin, end = begin_constants(k, splat), end_constants(k, splat)
    begin_fast, end_fast = begin_fast_constants(k, splat), end_fast_constants(k, splat)
    for j in range(0, len(x), WIDTH):
        if reference:
            small, exponent = begin_power(load(x, j), splat(beta), begin)
            store(out, j, end_power(small, exponent, splat(beta), end))
        else:
            y = begin_fast_power(load(x, j), splat(beta), begin_fast)
            store(out, j, end_fast_power(y, end_fast))


@njit(error_model="numpy")
def exponentials(x, out):  # type: ignore[no-untyped-def]
    for j in range(0, len(x), WIDTH):
        store(out, j, exp_lanes(load(x, j)))


@njit(error_model="numpy")
def softpluses(x, out, k):  # type: ignore[no-untyped-def]
    for j in range(0, len(x), WIDTH):
        store(out, j, softplus_lanes(load(x, j), begin_constants(k, splat)))


def power_errors(beta: float, reference: bool) -> Floats:
    """Relative errors over every sum that training can meet, 1e-12 to 1e12."""
    draw = np.random.default_rng(1)
    x = (10.0 ** draw.uniform(-12, 12, 200_000)).astype(np.float32)
    out = np.empty_like(x)
    powers(x, np.float32(beta), reference, out, CONSTANTS)
    true = x.astype(np.float64) ** np.float64(np.float32(beta))
    return np.abs(out / true - 1)


@pytest.mark.parametrize("beta", BETAS)
def test_reference_powers(beta: float) -> None:
    assert power_errors(beta, True).max() < 4e-7


@pytest.mark.parametrize("beta", BETAS)
def test_fast_powers(beta: float) -> None:
    errors = power_errors(beta, False)
    assert errors.max() < 2e-5
    assert np.median(errors) < 4e-6


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("beta", BETAS)
def test_powers_of_anything_not_negative_are_positive_and_finite(
    beta: float, reference: bool
) -> None:
    tiny = np.finfo(np.float32).smallest_subnormal
    x = np.array([0.0, tiny, 1e-39, 1.2e-38, 1e-20, 1.0, 1e20, 3.4e38], np.float32)
    out = np.empty_like(x)
    powers(x, np.float32(beta), reference, out, CONSTANTS)
    assert np.all(np.isfinite(out))
    assert np.all(out > 0)
    normal = out[3:]
    assert np.all(np.diff(normal) >= -2e-5 * normal[1:])  # they rise
    if beta > 0.5:
        assert out[0] < 1e-18  # nothing to some power is next to nothing


def test_exponentials() -> None:
    """Relative error 4e-7, and what rounding x * log2(e) costs: half an ulp of the exponent."""
    x = np.linspace(-87, 88, 100_000, dtype=np.float32)
    out = np.empty_like(x)
    exponentials(x, out)
    errors = np.abs(out / np.exp(x.astype(np.float64)) - 1)
    assert np.all(errors < 4e-7 + 2 * EPS * np.abs(x))
    assert errors[np.abs(x) < 1].max() < 4e-7


@pytest.mark.parametrize(
    ("x", "low", "high"),
    [
        (-np.inf, 0.0, 1e-37),
        (-1e30, 0.0, 1e-37),
        (-200.0, 0.0, 1e-37),
        (0.0, 1.0, 1.0),
        (-0.0, 1.0, 1.0),
        (200.0, 1e38, 3.4e38),
        (1e30, 1e38, 3.4e38),
        (np.inf, 1e38, 3.4e38),
    ],
)
def test_exponentials_are_held_to_finite_numbers(x: float, low: float, high: float) -> None:
    out = np.empty(8, np.float32)
    exponentials(np.full(8, x, np.float32), out)
    assert np.all((low <= out) & (out <= high))


def test_softplus() -> None:
    """To 2e-6 of itself, or to a rounding of 1 where it is small."""
    x = np.linspace(-100, 100, 80_000, dtype=np.float32)
    out = np.empty_like(x)
    softpluses(x, out, CONSTANTS)
    true = np.logaddexp(0.0, x.astype(np.float64))
    np.testing.assert_allclose(out, true, rtol=4e-7, atol=2 * EPS)


@pytest.mark.parametrize(
    ("x", "wanted"), [(-1e30, 0.0), (-1e4, 0.0), (1e4, 1e4), (1e30, 1e30), (-np.inf, 0.0)]
)
def test_softplus_at_any_size(x: float, wanted: float) -> None:
    out = np.empty(8, np.float32)
    softpluses(np.full(8, x, np.float32), out, CONSTANTS)
    np.testing.assert_allclose(out, wanted, rtol=1e-6, atol=1e-30)
