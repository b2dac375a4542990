"""Float32 lanes as one numba value: the whole SIMD layer.

`Lanes` is LLVM's `<8 x float>`, one AVX register (or two SSE/NEON ones), and every operation here
is one IEEE operation on each lane, so results are the same bits on every CPU (inside the kernels,
subnormal numbers count as zero). LLVM neither reorders nor contracts them. Arrays are flat
float32; `load` and `store` take an element offset, need no alignment and check no bounds.

Sixteen lanes, one AVX-512 register, are for passes over one dense buffer (`divergence/power.py`):
`load_wide` and `wide` make them, and what has no `f32x8` in its name takes either width. Sums over
lanes exist for eight alone, since their order is part of the result.

Deliberately absent: masks, gathers and other types. Rows are padded to a multiple of `WIDTH`
instead, and padding lanes hold zeros.
"""

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8
WIDE = 16

_I32 = ir.IntType(32)
_ELEMENTS = {"f32": ir.FloatType(), "i32": _I32}


class Lanes(types.Type):
    """Numba's type of some lanes, float32 or (inside powers) int32."""

    def __init__(self, element: str, width: int):
        self.element, self.width = element, width
        self.vector = ir.VectorType(_ELEMENTS[element], width)
        super().__init__(name=f"{element}x{width}")


f32x8, i32x8 = Lanes("f32", WIDTH), Lanes("i32", WIDTH)
f32x16, i32x16 = Lanes("f32", WIDE), Lanes("i32", WIDE)
_AS_INTEGERS = {f32x8: i32x8, f32x16: i32x16}
_AS_FLOATS = {integers: floats for floats, integers in _AS_INTEGERS.items()}


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes):
        super().__init__(dmm, fe_type, fe_type.vector)


def padded(n: int) -> int:
    """The smallest multiple of WIDTH that holds n entries."""
    return -(-n // WIDTH) * WIDTH


# -- memory -------------------------------------------------------------------------------------


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


def _load(lanes: Lanes, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(pointer, lanes.vector.as_pointer()), align=4)

    return lanes(array, types.intp), codegen


@intrinsic
def load(typing: Any, array: Any, offset: Any) -> Any:
    """array[offset : offset + 8]."""
    return _load(f32x8, array)


@intrinsic
def load_wide(typing: Any, array: Any, offset: Any) -> Any:
    """array[offset : offset + 16]."""
    return _load(f32x16, array)


@intrinsic
def store(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """array[offset : offset + 8] = lanes; sixteen of them where lanes are sixteen."""
    if lanes not in _AS_INTEGERS:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], builder.bitcast(pointer, lanes.vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


@intrinsic
def item(typing: Any, array: Any, offset: Any) -> Any:
    """array[offset], without the check for a negative offset."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args[0], *args))

    return array.dtype(array, types.intp), codegen


@intrinsic
def put(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """array[offset] = value, without the check for a negative offset."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, signature.args[0], *args[:2]))
        return context.get_dummy_value()

    return types.void(array, types.intp, array.dtype), codegen


@intrinsic
def prefetch(typing: Any, array: Any, offset: Any) -> Any:
    """Ask for the cache line of array[offset] without waiting for it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.bitcast(
            _pointer(context, builder, signature.args[0], *args), cgutils.voidptr_t
        )
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = ir.Constant(_I32, 0), ir.Constant(_I32, 3), ir.Constant(_I32, 1)
        builder.call(function, [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


# -- arithmetic ---------------------------------------------------------------------------------

Typer = Callable[..., Any]  # the signature for these argument types, or None


def _operation(count: int, signature_of: Typer, emit: Callable[..., Any], doc: str) -> Any:
    """An intrinsic on `count` arguments whose machine code is `emit(builder, *arguments)`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return emit(builder, *args)

    def typed(*args: Any) -> Any:
        signature = signature_of(*args)
        return None if signature is None else (signature, codegen)

    typers: dict[int, Callable[..., Any]] = {
        1: lambda typing, x: typed(x),
        2: lambda typing, x, y: typed(x, y),
        3: lambda typing, x, y, z: typed(x, y, z),
        4: lambda typing, x, y, z, w: typed(x, y, z, w),
    }
    typer = typers[count]
    typer.__doc__ = doc
    return intrinsic(typer)


def _alike(*args: Any) -> Any:
    """Float lanes of one width give such lanes."""
    return args[0](*args) if args[0] in _AS_INTEGERS and len(set(args)) == 1 else None


def _fixed(result: Any, *arguments: Any) -> Typer:
    return lambda *args: result(*arguments)


def _between(results: dict[Any, Any]) -> Typer:
    """Lanes of one kind give those of another, of the same width."""
    return lambda lanes: results[lanes](lanes) if lanes in results else None


def _llvm(name: str) -> Callable[..., Any]:
    """Emit a call of the LLVM intrinsic of this name on float lanes."""

    def emit(builder: Any, *args: Any) -> Any:
        vector = args[0].type
        kind = ir.FunctionType(vector, [vector] * len(args))
        full = f"llvm.{name}.v{vector.count}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), args)

    return emit


def _splat(vector: Any) -> Callable[..., Any]:
    def emit(builder: Any, scalar: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        one = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        first = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
        return builder.shuffle_vector(one, undefined, first)

    return emit


def _tree(combine: Callable[..., Any]) -> Callable[..., Any]:
    """Reduce the lanes in a fixed order: combine halves until one lane is left."""

    def emit(builder: Any, lanes: Any) -> Any:
        width = WIDTH
        while width > 1:
            width //= 2
            undefined = ir.Constant(lanes.type, ir.Undefined)
            halves = [
                builder.shuffle_vector(
                    lanes,
                    undefined,
                    ir.Constant(ir.VectorType(_I32, width), list(range(first, first + width))),
                )
                for first in (0, width)
            ]
            lanes = combine(builder, *halves)
        return builder.extract_element(lanes, ir.Constant(_I32, 0))

    return emit


def _larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)


def _smaller(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, y), x, y)


def _any_not_below(builder: Any, x: Any, y: Any) -> Any:
    mask = builder.fcmp_unordered(">=", x, y)
    return builder.icmp_unsigned(
        "!=", builder.bitcast(mask, ir.IntType(WIDTH)), ir.IntType(WIDTH)(0)
    )


splat = _operation(
    1, _fixed(f32x8, types.float32), _splat(f32x8.vector), "The scalar in each of eight lanes."
)
wide = _operation(
    1, _fixed(f32x16, types.float32), _splat(f32x16.vector), "The scalar in each of sixteen lanes."
)
fma = _operation(3, _alike, _llvm("fma"), "x * y + z, rounded once.")
absolute = _operation(1, _alike, _llvm("fabs"), "|x|.")
larger = _operation(2, _alike, _larger, "x where x > y, else y (y where x is NaN).")
smaller = _operation(2, _alike, _smaller, "x where x < y, else y (y where x is NaN).")
chosen_above = _operation(
    4,
    _alike,
    lambda b, x, y, high, low: b.select(b.fcmp_ordered(">", x, y), high, low),
    "`high` where x > y, else `low`.",
)
at_least = _operation(
    2,
    _alike,
    lambda b, x, low: b.select(b.fcmp_ordered("<", x, low), low, x),
    "x, but `low` where x < low. A NaN stays a NaN, unlike with `larger`.",
)
at_most = _operation(
    2,
    _alike,
    lambda b, x, high: b.select(b.fcmp_ordered(">", x, high), high, x),
    "x, but `high` where x > high. A NaN stays a NaN, unlike with `smaller`.",
)
lane_sum = _operation(
    1,
    _fixed(types.float32, f32x8),
    _tree(lambda b, x, y: b.fadd(x, y)),
    "((0+4)+(2+6)) + ((1+5)+(3+7)).",
)
lane_max = _operation(
    1, _fixed(types.float32, f32x8), _tree(_larger), "The largest lane; NaN may be lost."
)
any_not_below = _operation(
    2,
    _fixed(types.boolean, f32x8, f32x8),
    _any_not_below,
    "Whether not x < y in some lane: true for a NaN.",
)
first_lane = _operation(
    1,
    _fixed(types.float32, f32x8),
    lambda b, x: b.extract_element(x, ir.Constant(_I32, 0)),
    "Lane 0.",
)

# -- bits, for exponents ------------------------------------------------------------------------


def _spread(builder: Any, lanes: Any, number: Any) -> Any:
    return _splat(ir.VectorType(_I32, lanes.type.count))(builder, number)


int_splat = _operation(
    1, _fixed(i32x8, types.int32), _splat(i32x8.vector), "The integer in each of eight lanes."
)
whole = _operation(
    2,
    lambda lanes, number: (
        _AS_INTEGERS[lanes](lanes, types.int32) if lanes in _AS_INTEGERS else None
    ),
    _spread,
    "The integer in as many lanes as x has.",
)
bits = _operation(
    1,
    _between(_AS_INTEGERS),
    lambda b, x: b.bitcast(x, ir.VectorType(_I32, x.type.count)),
    "The same bits as integers.",
)


def _float_vector(x: Any) -> Any:
    return ir.VectorType(_ELEMENTS["f32"], x.type.count)


floats = _operation(
    1, _between(_AS_FLOATS), lambda b, x: b.bitcast(x, _float_vector(x)), "The same bits as floats."
)
converted = _operation(
    1, _between(_AS_FLOATS), lambda b, x: b.sitofp(x, _float_vector(x)), "The integers as floats."
)


# -- operators ----------------------------------------------------------------------------------

_OPERATORS = {
    operator.add: ("fadd", "add"),
    operator.sub: ("fsub", "sub"),
    operator.mul: ("fmul", None),
    operator.truediv: ("fdiv", None),
    operator.lshift: (None, "shl"),
    operator.rshift: (None, "ashr"),
}


def _register(symbol: Any, instruction: str, lanes: Lanes) -> None:
    emit = _operation(
        2, _fixed(lanes, lanes, lanes), lambda b, x, y: getattr(b, instruction)(x, y), ""
    )

    @overload(symbol)
    def typed(x, y):
        return (lambda x, y: emit(x, y)) if x == lanes and y == lanes else None


for _symbol, (_float_op, _int_op) in _OPERATORS.items():
    for _lanes in _AS_INTEGERS:
        if _float_op:
            _register(_symbol, _float_op, _lanes)
        if _int_op:
            _register(_symbol, _int_op, _AS_INTEGERS[_lanes])

__all__ = [
    "WIDE",
    "WIDTH",
    "Lanes",
    "absolute",
    "any_not_below",
    "at_least",
    "at_most",
    "bits",
    "chosen_above",
    "converted",
    "first_lane",
    "floats",
    "fma",
    "int_splat",
    "item",
    "lane_max",
    "lane_sum",
    "larger",
    "load",
    "load_wide",
    "padded",
    "prefetch",
    "put",
    "smaller",
    "splat",
    "store",
    "whole",
    "wide",
]
