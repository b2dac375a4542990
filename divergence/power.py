"""alpha + x ** beta over a whole buffer, with as many lanes as the CPU at hand has.

Half of a training step is spent here, and nothing is wasted on padding: so these passes alone have
a form with sixteen lanes. Both forms give the same bits, since no operation mixes lanes.
"""

from numba.core.registry import cpu_target

from divergence.jit import inlined
from divergence.lanemath import (
    begin_constants,
    begin_fast_constants,
    begin_fast_power,
    begin_power,
    end_constants,
    end_fast_constants,
    end_fast_power,
    end_power,
    f32,
)
from divergence.simd import WIDE, WIDTH, load, load_wide, splat, store, wide


def has_wide_registers() -> bool:
    """Whether numba compiles for a CPU with AVX-512.

    numba's cache keeps code for CPUs of other names or features apart.
    """
    features: str = cpu_target.target_context.codegen()._tm_features
    return "+avx512f" in features.split(",")


LANES, _LOAD, _SPREAD = (WIDE, load_wide, wide) if has_wide_registers() else (WIDTH, load, splat)


@inlined
def denominators(dense, exponents, n, rates, constants):
    """dense[:n] <- alpha + dense ** beta; up to LANES - 1 entries more may change.

    `exponents` is as long as `dense` and holds what is between the two halves of a power.
    """
    if rates.reference:
        reference_pass(dense, exponents, n, rates, constants, _LOAD, _SPREAD, LANES)
    else:
        fast_pass(dense, n, rates, constants, _LOAD, _SPREAD, LANES)


@inlined
def reference_pass(dense, exponents, n, rates, constants, load, spread, width):
    """`denominators` at reference accuracy, with lanes of one width."""
    beta, k = spread(f32(rates.beta)), begin_constants(constants, spread)
    for j in range(0, n, width):
        small, exponent = begin_power(load(dense, j), beta, k)
        store(dense, j, small)
        store(exponents, j, exponent)
    alpha, k = spread(f32(rates.alpha)), end_constants(constants, spread)
    for j in range(0, n, width):
        power = end_power(load(dense, j), load(exponents, j), beta, k)
        store(dense, j, alpha + power)


@inlined
def fast_pass(dense, n, rates, constants, load, spread, width):
    """`denominators` in the default mode, with lanes of one width."""
    beta, k = spread(f32(rates.beta)), begin_fast_constants(constants, spread)
    for j in range(0, n, width):
        store(dense, j, begin_fast_power(load(dense, j), beta, k))
    alpha, k = spread(f32(rates.alpha)), end_fast_constants(constants, spread)
    for j in range(0, n, width):
        store(dense, j, alpha + end_fast_power(load(dense, j), k))
