"""Initial vectors: a normal draw from (seed, feature, value), and from nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.initial_vectors import initial_vectors

ROOT = Path(__file__).parent.parent.parent


@settings(derandomize=True, deadline=None)
@given(st.permutations([f"value {i}" for i in range(12)]), st.integers(1, 12))
def test_the_order_and_the_company_of_values_do_not_matter(values: list[str], keep: int) -> None:
    whole = dict(zip(values, initial_vectors(3, "ad", values, 9, 0.1), strict=True))
    part = initial_vectors(3, "ad", sorted(values[:keep]), 9, 0.1)
    for value, vector in zip(sorted(values[:keep]), part, strict=True):
        np.testing.assert_array_equal(vector, whole[value])


def test_seed_feature_and_value_all_matter() -> None:
    seen = {
        initial_vectors(seed, feature, [value], 6, 1.0).tobytes()
        for seed in (0, 1, 10)
        for feature in ("a", "b", "1")
        for value in ("", "a", "b", "1")
    }
    assert len(seen) == 36


def test_a_longer_vector_begins_like_a_shorter_one() -> None:
    long, short = (initial_vectors(1, "f", ["v"], n, 1.0)[0] for n in (12, 7))
    np.testing.assert_array_equal(long[:7], short)


def test_the_spread_scales_the_same_draw() -> None:
    one, half = (initial_vectors(1, "f", ["v"], 8, std)[0] for std in (1.0, 0.5))
    np.testing.assert_allclose(half, one / 2, rtol=1e-6)
    assert not np.any(initial_vectors(1, "f", ["v"], 8, 0.0))


def test_no_values() -> None:
    assert initial_vectors(0, "f", [], 5, 1.0).shape == (0, 5)


def test_entries_are_normal_and_independent() -> None:
    """Half a million entries: moments, tails, and no correlation along or across vectors."""
    drawn = initial_vectors(7, "ad", [str(i) for i in range(50_000)], 10, 0.05).astype(np.float64)
    entries = drawn.reshape(-1) / 0.05
    n = len(entries)
    assert abs(entries.mean()) < 4 / np.sqrt(n)
    assert abs(entries.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs((entries**3).mean()) < 4 * np.sqrt(15 / n)
    assert abs((entries**4).mean() - 3) < 4 * np.sqrt(96 / n)
    for limit, share in ((1, 0.317311), (2, 0.0455003), (3, 0.0026998)):
        beyond = np.mean(np.abs(entries) > limit)
        assert abs(beyond - share) < 4 * np.sqrt(share / n)
    correlations = np.corrcoef(drawn.T) - np.eye(10)
    assert np.max(np.abs(correlations)) < 5 / np.sqrt(50_000)
    neighbours = np.corrcoef(drawn[:-1].reshape(-1), drawn[1:].reshape(-1))[0, 1]
    assert abs(neighbours) < 4 / np.sqrt(n)


@pytest.mark.parametrize("hash_seed", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_another_process_draws_the_same(hash_seed: str) -> None:
    script = (
        "from trainer.initial_vectors import initial_vectors\n"
        "print(initial_vectors(5, 'f', ['x', 'ä'], 9, 0.3).tobytes().hex())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    theirs = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert theirs.stdout.strip() == initial_vectors(5, "f", ["x", "ä"], 9, 0.3).tobytes().hex()


def test_the_draw_is_the_one_it_always_was() -> None:
    """A model's unseen values must not change from one release to the next."""
    drawn = initial_vectors(0, "ad", ["42"], 4, 1.0)[0]
    wanted = [-1.9933041, -0.55687606, -0.63171935, 0.74361825]
    np.testing.assert_allclose(drawn, wanted, rtol=1e-7)
