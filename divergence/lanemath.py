"""x ** beta, e ** x and log(1 + e ** x), on lanes, by polynomials.

Two accuracies, both measured in the tests: *reference* (degrees 7 and 5, relative error of a
power below 4e-7) and *fast* (degrees 5 and 4, below 2e-5 and mostly 4e-6). The coefficients are
weighted minimax fits: log2(1 + f) / f on [sqrt(1/2) - 1, sqrt(2) - 1], 2 ** r on [-1/2, 1/2].

A power comes in two halves, so that a caller can run each over a whole buffer: one loop with both
is bound by latency and a quarter slower. Its constants come from an array, `CONSTANTS`, and are
made lanes before a loop: the compiler would otherwise load each of them in every iteration.
"""

from typing import Any, NamedTuple

import numpy as np

from divergence.jit import inlined
from divergence.simd import (
    absolute,
    bits,
    converted,
    first_lane,
    floats,
    fma,
    item,
    larger,
    smaller,
    splat,
    whole,
)

f32, i32 = np.float32, np.int32

_ROUND = 12582912.0  # 1.5 * 2**23: a sum with it holds the nearest integer in its low bits
_LOW, _HIGH = _ROUND - 126.0, _ROUND + 127.0  # the exponents of normal numbers, thus shifted
_SQRT_HALF = i32(0x3F3504F3)  # the bits of sqrt(1/2)
_LOG2_E, _LN_2 = f32(1.4426950408889634), f32(0.6931471805599453)

_LOG = (1.4426947832107544, -0.7213571667671204, 0.48093944787979126, -0.36008721590042114)
_LOG += (0.28670746088027954, -0.2500690817832947, 0.23689045011997223, -0.1457444429397583)
_EXP = (1.0, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699)
_EXP += (0.009675541892647743, 0.001327647129073739)
_FAST_LOG = (1.4427134990692139, -0.7211318612098694, 0.47934800386428833)
_FAST_LOG += (-0.3674900233745575, 0.3221549391746521, -0.20659174025058746)
_FAST_EXP = (0.9999992847442627, 0.6931217908859253, 0.240247443318367)
_FAST_EXP += (0.05591786280274391, 0.009570101276040077)

_SHARED = (1.0, _ROUND, _LOW, _HIGH)
CONSTANTS = np.array(_SHARED + _LOG + _EXP + _FAST_LOG + _FAST_EXP, np.float32)
CONSTANTS.setflags(write=False)
_AT_LOG = len(_SHARED)
_AT_EXP = _AT_LOG + len(_LOG)
_AT_FAST_LOG = _AT_EXP + len(_EXP)
_AT_FAST_EXP = _AT_FAST_LOG + len(_FAST_LOG)


class BeginConstants(NamedTuple):
    """What the first half of a power needs, as lanes: they stay in registers for a whole pass."""

    one: Any
    log: Any


class EndConstants(NamedTuple):
    """What the second half of a power needs, as lanes."""

    rounding: Any
    low: Any
    high: Any
    exp: Any


@inlined
def begin_constants(constants, spread):
    """For `begin_power`; `spread` makes lanes of a number, and so sets the width."""
    return BeginConstants(spread(item(constants, 0)), _eight(constants, _AT_LOG, spread))


@inlined
def end_constants(constants, spread):
    """For `end_power`."""
    return _end(constants, _six(constants, _AT_EXP, spread), spread)


@inlined
def begin_fast_constants(constants, spread):
    """For `begin_fast_power`."""
    return BeginConstants(spread(item(constants, 0)), _six(constants, _AT_FAST_LOG, spread))


@inlined
def end_fast_constants(constants, spread):
    """For `end_fast_power`."""
    return _end(constants, _five(constants, _AT_FAST_EXP, spread), spread)


@inlined
def _end(constants, exp, spread):
    low, high = spread(item(constants, 2)), spread(item(constants, 3))
    return EndConstants(spread(item(constants, 1)), low, high, exp)


@inlined
def _five(constants, at, spread):
    k0, k1 = spread(item(constants, at)), spread(item(constants, at + 1))
    k2, k3 = spread(item(constants, at + 2)), spread(item(constants, at + 3))
    return k0, k1, k2, k3, spread(item(constants, at + 4))


@inlined
def _six(constants, at, spread):
    return (*_five(constants, at, spread), spread(item(constants, at + 5)))


@inlined
def _eight(constants, at, spread):
    k6, k7 = spread(item(constants, at + 6)), spread(item(constants, at + 7))
    return (*_six(constants, at, spread), k6, k7)


@inlined
def _exponent(x):
    """The integer e for which x / 2**e is nearest to 1."""
    return (bits(x) - whole(x, _SQRT_HALF)) >> whole(x, i32(23))


@inlined
def _fraction(x, exponent, one):
    """x / 2**exponent - 1."""
    return floats(bits(x) - (exponent << whole(x, i32(23)))) - one


@inlined
def _scaled(mantissa, shifted):
    """mantissa * 2**n, where shifted is n + _ROUND."""
    return floats(bits(mantissa) + (bits(shifted) << whole(shifted, i32(23))))


@inlined
def _limited(shifted, k):
    """The exponent, limited to those of normal numbers: no power is zero or infinite."""
    return smaller(larger(shifted, k.low), k.high)


@inlined
def begin_power(x, beta, k):
    """First half of x ** beta, x > 0, at reference accuracy: (beta * rest, exponent) of log2 x.

    Zero and subnormal x count as about 2 ** -127.
    """
    exponent = _exponent(x)
    f = _fraction(x, exponent, k.one)
    f2 = f * f
    low = fma(fma(k.log[3], f, k.log[2]), f2, fma(k.log[1], f, k.log[0]))
    high = fma(fma(k.log[7], f, k.log[6]), f2, fma(k.log[5], f, k.log[4]))
    return beta * (f * fma(high, f2 * f2, low)), converted(exponent)


@inlined
def end_power(small, exponent, beta, k):
    """Second half, from what `begin_power` gave."""
    shifted = fma(beta, exponent, small) + k.rounding
    r = fma(beta, exponent, k.rounding - shifted) + small
    p = fma(k.exp[5], r, k.exp[4])
    p = fma(p, r, k.exp[3])
    p = fma(p, r, k.exp[2])
    p = fma(p, r, k.exp[1])
    p = fma(p, r, k.exp[0])
    return _scaled(p, _limited(shifted, k))


@inlined
def begin_fast_power(x, beta, k):
    """First half of x ** beta, x > 0, fast: beta * log2 x."""
    exponent = _exponent(x)
    f = _fraction(x, exponent, k.one)
    f2 = f * f
    high = fma(fma(k.log[5], f, k.log[4]), f2, fma(k.log[3], f, k.log[2]))
    return beta * fma(fma(high, f2, fma(k.log[1], f, k.log[0])), f, converted(exponent))


@inlined
def end_fast_power(y, k):
    """Second half, from what `begin_fast_power` gave."""
    shifted = y + k.rounding
    r = y - (shifted - k.rounding)
    p = fma(k.exp[4], r, k.exp[3])
    p = fma(p, r, k.exp[2])
    p = fma(p, r, k.exp[1])
    p = fma(p, r, k.exp[0])
    return _scaled(p, _limited(shifted, k))


@inlined
def exp_lanes(x):
    """e ** x at reference accuracy, limited to the range of normal numbers."""
    y = x * splat(_LOG2_E)
    rounding = splat(f32(_ROUND))
    shifted = smaller(larger(y + rounding, splat(f32(_LOW))), splat(f32(_HIGH)))
    r = smaller(larger(y - (shifted - rounding), splat(f32(-0.5))), splat(f32(0.5)))
    p = fma(splat(f32(_EXP[5])), r, splat(f32(_EXP[4])))
    p = fma(p, r, splat(f32(_EXP[3])))
    p = fma(p, r, splat(f32(_EXP[2])))
    p = fma(p, r, splat(f32(_EXP[1])))
    return _scaled(fma(p, r, splat(f32(_EXP[0]))), shifted)


@inlined
def exp(x):
    """`exp_lanes` of one float32."""
    return first_lane(exp_lanes(splat(x)))


@inlined
def softplus_lanes(x, k):
    """log(1 + e ** x), stable at any x; k are `begin_constants`."""
    zero, one = splat(f32(0.0)), splat(f32(1.0))
    rest, exponent = begin_power(one + exp_lanes(zero - absolute(x)), one, k)
    return larger(x, zero) + (exponent + rest) * splat(_LN_2)
