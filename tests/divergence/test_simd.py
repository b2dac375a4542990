"""The SIMD layer on its own: every operation is numpy's, lane by lane and bit for bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from divergence import simd
from divergence.simd import (
    WIDE,
    WIDTH,
    absolute,
    any_not_below,
    bits,
    chosen_above,
    converted,
    first_lane,
    floats,
    fma,
    int_splat,
    item,
    lane_max,
    lane_sum,
    larger,
    load,
    load_wide,
    padded,
    prefetch,
    put,
    smaller,
    splat,
    store,
    whole,
    wide,
)
from divergence.subnormals import flush_subnormals, restore_subnormals

Floats = NDArray[np.float32]

TINY = float(np.finfo(np.float32).smallest_subnormal)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, TINY, -TINY, 1e-39, 3.4e38, -3.4e38, 1.0, -1.0]


FORMS = ((WIDTH, load), (WIDE, load_wide))


def samples(seed: int) -> Floats:
    """Every pair of special values meets some time; the rest is of all magnitudes."""
    draw = np.random.default_rng(seed)
    ordinary = draw.normal(0, 1, 800) * 10.0 ** draw.integers(-30, 30, 800)
    special = draw.permutation(np.repeat(SPECIAL, 100))
    return np.concatenate([special, ordinary]).astype(np.float32)


def applied(operation: Any, *arrays: Floats) -> Floats:
    """The operation on whole arrays, eight lanes at a time; sixteen must give the same bits."""
    narrow, broad = (applied_with(*form, operation, arrays) for form in FORMS)
    assert_same_bits(broad, narrow)
    return narrow


def applied_with(width: int, load: Any, operation: Any, arrays: tuple[Floats, ...]) -> Floats:
    """The operation on whole arrays, with lanes of one width."""
    count = len(arrays)

    @njit(error_model="numpy")
    def run(x, y, z, w, out):  # type: ignore[no-untyped-def]
        for j in range(0, len(x), width):
            if count == 1:
                store(out, j, operation(load(x, j)))
            elif count == 2:
                store(out, j, operation(load(x, j), load(y, j)))
            elif count == 3:
                store(out, j, operation(load(x, j), load(y, j), load(z, j)))
            else:
                store(out, j, operation(load(x, j), load(y, j), load(z, j), load(w, j)))

    out = np.empty_like(arrays[0])
    run(*(list(arrays) + [arrays[0]] * (4 - count)), out)
    return out


def assert_same_bits(got: Floats, wanted: Floats) -> None:
    """-0 is not 0; one NaN is as good as another."""
    ours, theirs = got.view(np.int32), wanted.astype(np.float32).view(np.int32)
    both_nan = np.isnan(got) & np.isnan(wanted)
    np.testing.assert_array_equal(np.where(both_nan, 0, ours), np.where(both_nan, 0, theirs))


BINARY: dict[str, tuple[Any, Callable[[Floats, Floats], Any]]] = {
    "+": (njit(lambda x, y: x + y), np.add),
    "-": (njit(lambda x, y: x - y), np.subtract),
    "*": (njit(lambda x, y: x * y), np.multiply),
    "/": (njit(lambda x, y: x / y), np.divide),
    "larger": (larger, lambda x, y: np.where(x > y, x, y)),
    "smaller": (smaller, lambda x, y: np.where(x < y, x, y)),
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_arguments(name: str) -> None:
    operation, numpys = BINARY[name]
    x, y = samples(1), samples(2)
    assert_same_bits(applied(operation, x, y), np.asarray(numpys(x, y)))


def test_absolute() -> None:
    x = samples(3)
    assert_same_bits(applied(absolute, x), np.abs(x))


def test_chosen_above() -> None:
    x, y, high, low = (samples(seed) for seed in range(4, 8))
    wanted = np.where(x > y, high, low)
    assert_same_bits(applied(chosen_above, x, y, high, low), wanted)


def test_larger_and_smaller_give_the_second_where_the_first_is_not_a_number() -> None:
    x, y = np.full(16, np.nan, np.float32), np.arange(16, dtype=np.float32)
    np.testing.assert_array_equal(applied(larger, x, y), y)
    np.testing.assert_array_equal(applied(smaller, x, y), y)
    assert np.all(np.isnan(applied(larger, y, x)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_fma_rounds_once() -> None:
    """float64 holds a product of float32 exactly, so only the sum rounds (and then float32)."""
    draw = np.random.default_rng(8)
    x, y = (draw.normal(0, 1, 4096).astype(np.float32) for _ in range(2))
    z = -(x * y)  # what is left is the product's rounding error, which two roundings would lose
    got = applied(fma, x, y, z)
    np.testing.assert_array_equal(got, (x.astype(np.float64) * y + z).astype(np.float32))
    assert np.count_nonzero(got) > 3000
    special = [samples(seed) for seed in (9, 10, 11)]
    x, y, z = (array.astype(np.float64) for array in special)
    plain = (x * y + z).astype(np.float32)
    odd = ~np.isfinite(special[0]) | ~np.isfinite(special[1]) | ~np.isfinite(special[2])
    assert_same_bits(applied(fma, *special)[odd], plain[odd])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_lane_sum_adds_halves_in_a_fixed_order() -> None:
    @njit
    def summed(x, out):  # type: ignore[no-untyped-def]
        for i in range(len(out)):
            out[i] = lane_sum(load(x, i * WIDTH))

    x = samples(12)
    out = np.empty(len(x) // WIDTH, np.float32)
    summed(x, out)
    lanes = x.reshape(-1, 4, 2).transpose(0, 2, 1)  # even lanes, odd lanes
    a, b = (lanes[:, side] for side in (0, 1))
    even = (a[:, 0] + a[:, 2]) + (a[:, 1] + a[:, 3])
    odd = (b[:, 0] + b[:, 2]) + (b[:, 1] + b[:, 3])
    assert_same_bits(out, even + odd)


def test_lane_max() -> None:
    @njit
    def largest(x, out):  # type: ignore[no-untyped-def]
        for i in range(len(out)):
            out[i] = lane_max(load(x, i * WIDTH))

    x = samples(13)
    x = x[~np.isnan(x)]
    x = x[: len(x) // WIDTH * WIDTH]
    out = np.empty(len(x) // WIDTH, np.float32)
    largest(x, out)
    np.testing.assert_array_equal(out, x.reshape(-1, WIDTH).max(axis=1))


def test_any_not_below_sees_every_lane_and_every_nan() -> None:
    @njit
    def asked(x, y):  # type: ignore[no-untyped-def]
        return any_not_below(load(x, 0), load(y, 0))

    low, limit = np.zeros(8, np.float32), np.full(8, 15.0, np.float32)
    assert not asked(low, limit)
    for lane in range(WIDTH):
        for number, expected in (
            (np.nan, True),
            (np.inf, True),
            (15.0, True),
            (np.nextafter(np.float32(15), np.float32(0)), False),
            (-np.inf, False),
        ):
            x = low.copy()
            x[lane] = number
            assert asked(x, limit) == expected
        y = limit.copy()
        y[lane] = np.nan
        assert asked(low, y)


@pytest.mark.parametrize(("width", "load"), FORMS)
def test_load_and_store_take_any_offset_and_touch_their_entries(width: int, load: Any) -> None:
    @njit
    def copy(x, at, out, to):  # type: ignore[no-untyped-def]
        store(out, to, load(x, at))

    x = np.arange(32, dtype=np.float32)
    for at in range(33 - width):
        out = np.full(32, -1, np.float32)
        copy(x, at, out, 3)
        np.testing.assert_array_equal(out[3 : 3 + width], x[at : at + width])
        assert np.all(out[:3] == -1)
        assert np.all(out[3 + width :] == -1)


def test_item_put_and_prefetch() -> None:
    @njit
    def moved(counts, x, out):  # type: ignore[no-untyped-def]
        for i in range(len(x)):
            prefetch(x, i)
            put(out, i, item(x, i) * np.float32(item(counts, i)))

    counts, x = np.array([3, -2, 7], np.int32), np.array([0.5, 4.0, 0.0], np.float32)
    out = np.empty(3, np.float32)
    moved(counts, x, out)
    np.testing.assert_array_equal(out, [1.5, -8.0, 0.0])


def test_read_only_arrays_are_read() -> None:
    @njit
    def first(x):  # type: ignore[no-untyped-def]
        return first_lane(load(x, 1)) + item(x, 0)

    x = np.arange(9, dtype=np.float32)
    x.setflags(write=False)
    assert first(x) == 1.0


def test_splats_and_first_lane() -> None:
    @njit
    def spread(value, number, out):  # type: ignore[no-untyped-def]
        store(out, 0, splat(value))
        store(out, 8, converted(int_splat(number)))
        store(out, 16, wide(value))
        store(out, 32, converted(whole(wide(value), number)))
        return first_lane(splat(value))

    out = np.zeros(48, np.float32)
    assert spread(np.float32(2.5), np.int32(-7), out) == 2.5
    wanted = [2.5] * 8 + [-7.0] * 8 + [2.5] * 16 + [-7.0] * 16
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize(("width", "load"), FORMS)
def test_bits_of_exponents(width: int, load: Any) -> None:
    """The integer side: bits, floats, +, -, << and >> (which keeps the sign)."""

    @njit
    def moved(x, out):  # type: ignore[no-untyped-def]
        lanes = load(x, 0)
        one, places = whole(lanes, np.int32(1)), whole(lanes, np.int32(23))
        store(out, 0, floats(bits(lanes) - (one << places)))
        store(out, width, floats(bits(lanes) + (one << places)))
        store(out, 2 * width, converted(bits(lanes) >> places))

    x = np.array([1.0, 2.0, -3.0, 100.0, 1e-30, -1e30, 0.75, 8.0] * 2, np.float32)[:width]
    out = np.empty(3 * width, np.float32)
    moved(x, out)
    np.testing.assert_array_equal(out[:width], x / 2)
    np.testing.assert_array_equal(out[width : 2 * width], x * 2)
    np.testing.assert_array_equal(out[2 * width :], x.view(np.int32) >> 23)


@pytest.mark.parametrize(("n", "wanted"), [(0, 0), (1, 8), (7, 8), (8, 8), (9, 16), (63, 64)])
def test_padded(n: int, wanted: int) -> None:
    assert padded(n) == wanted


def test_lanes_do_not_mix_with_numbers() -> None:
    """An operator that is not there is a typing error, never a silent conversion."""
    from numba.core.errors import TypingError

    @njit
    def mixed(x):  # type: ignore[no-untyped-def]
        return first_lane(load(x, 0) + np.float32(1.0))

    with pytest.raises(TypingError, match="No implementation of function"):
        mixed(np.zeros(8, np.float32))


@pytest.mark.parametrize("operation", [lane_sum, lane_max, first_lane])
def test_what_depends_on_the_width_takes_eight_lanes_only(operation: Any) -> None:
    """A sum's order is part of the result, so no sum over sixteen lanes may slip in."""
    from numba.core.errors import TypingError

    @njit
    def reduced(x):  # type: ignore[no-untyped-def]
        return operation(load_wide(x, 0))

    with pytest.raises(TypingError):
        reduced(np.zeros(16, np.float32))

    @njit
    def mixed(x):  # type: ignore[no-untyped-def]
        return larger(load_wide(x, 0), load(x, 0))

    with pytest.raises(TypingError):
        mixed(np.zeros(16, np.float32))


def test_every_operation_is_named_and_explained() -> None:
    for name in simd.__all__:
        assert getattr(simd, name) is not None
    assert set(simd.__all__) <= set(dir(simd))


@njit
def halved(numbers: Floats, out: Floats) -> None:
    store(out, 0, load(numbers, 0) * splat(np.float32(0.5)))


@njit
def halved_and_flushed(numbers: Floats, out: Floats) -> None:
    control = flush_subnormals()
    halved(numbers, out)
    restore_subnormals(control)


def test_subnormal_numbers_are_zero_while_they_are_flushed_and_no_longer() -> None:
    tiny = np.finfo(np.float32).tiny
    numbers = np.array([tiny, tiny / 4, 1, 2 * tiny, 0, -tiny, -tiny / 4, 8], np.float32)
    kept, flushed = np.zeros(8, np.float32), np.zeros(8, np.float32)
    halved_and_flushed(numbers, flushed)
    assert flushed.tolist() == [0, 0, 0.5, tiny, 0, 0, 0, 4]
    halved(numbers, kept)
    assert kept.tolist() == (numbers / 2).tolist()
    assert np.float32(tiny) / 2 > 0, "this thread computes with them again"
