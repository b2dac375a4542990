"""Eight float32 lanes as one numba value: the whole SIMD layer.

`Lanes` is LLVM's `<8 x float>`, one AVX register (or two SSE/NEON ones), and every operation here
is one IEEE operation on each lane, so results are the same bits on every CPU (inside the kernels,
subnormal numbers count as zero). LLVM neither reorders nor contracts them. Arrays are flat
float32; `load` and `store` take an element offset, need no alignment and check no bounds.

Deliberately absent: masks, gathers, other widths and types. Rows are padded to a multiple of
`WIDTH` instead, and padding lanes hold zeros.
"""

import operator
import platform
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

WIDTH = 8

_F32, _I32, _I64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VF, _VI = ir.VectorType(_F32, WIDTH), ir.VectorType(_I32, WIDTH)


class Lanes(types.Type):
    """Numba's type of eight lanes, float32 or (inside pow) int32."""

    def __init__(self, name: str):
        super().__init__(name=name)


f32x8, i32x8 = Lanes("f32x8"), Lanes("i32x8")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes):
        super().__init__(dmm, fe_type, _VF if fe_type == f32x8 else _VI)


def padded(n: int) -> int:
    """The smallest multiple of WIDTH that holds n entries."""
    return -(-n // WIDTH) * WIDTH


# -- memory -------------------------------------------------------------------------------------


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [offset])


@intrinsic
def load(typing: Any, array: Any, offset: Any) -> Any:
    """array[offset : offset + 8]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args)
        return builder.load(builder.bitcast(pointer, _VF.as_pointer()), align=4)

    return f32x8(array, types.intp), codegen


@intrinsic
def store(typing: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """array[offset : offset + 8] = lanes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args[:2])
        builder.store(args[2], builder.bitcast(pointer, _VF.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, f32x8), codegen


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


# -- subnormal numbers --------------------------------------------------------------------------

_FLUSH = {  # operands and results
    "x86": 0x8040,  # MXCSR: flush to zero, subnormals are zero
    "arm": 1 << 24,  # FPCR: flush to zero
}
_CPU = {"x86_64": "x86", "amd64": "x86", "aarch64": "arm", "arm64": "arm"}.get(
    platform.machine().lower()
)


@intrinsic
def flush_subnormals(typing: Any) -> Any:
    """Treat numbers below 2^-126 as zero; returns the argument for `restore_subnormals`.

    A CPU computes with them up to a hundred times slower, and vectors that a penalty has shrunk to
    almost nothing are full of them. This affects the current thread only, and does nothing on CPUs
    that are neither x86 nor ARM.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = _control_word(builder)
        if _CPU is not None:
            _set_control_word(builder, builder.or_(word, ir.Constant(word.type, _FLUSH[_CPU])))
        return word

    return types.uint64(), codegen


@intrinsic
def restore_subnormals(typing: Any, word: Any) -> Any:
    """Undo `flush_subnormals`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if _CPU is not None:
            _set_control_word(builder, args[0])
        return context.get_dummy_value()

    return types.void(types.uint64), codegen


def _control_word(builder: Any) -> Any:
    """The floating-point control word, as 64 bits."""
    if _CPU == "x86":
        place = cgutils.alloca_once(builder, _I32)
        _call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), _untyped(builder, place))
        return builder.zext(builder.load(place), _I64)
    return _call(builder, "llvm.aarch64.get.fpcr", _I64) if _CPU == "arm" else ir.Constant(_I64, 0)


def _set_control_word(builder: Any, word: Any) -> None:
    if _CPU == "x86":
        place = cgutils.alloca_once(builder, _I32)
        builder.store(builder.trunc(word, _I32), place)
        _call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), _untyped(builder, place))
    else:
        _call(builder, "llvm.aarch64.set.fpcr", ir.VoidType(), word)


def _untyped(builder: Any, pointer: Any) -> Any:
    return builder.bitcast(pointer, cgutils.voidptr_t)


def _call(builder: Any, name: str, result: Any, *args: Any) -> Any:
    kind = ir.FunctionType(result, [arg.type for arg in args])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)


# -- arithmetic ---------------------------------------------------------------------------------


def _operation(result: Any, arguments: tuple[Any, ...], emit: Callable[..., Any], doc: str) -> Any:
    """An intrinsic on lanes whose machine code is `emit(builder, *arguments)`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return emit(builder, *args)

    typers: dict[int, Callable[..., Any]] = {
        1: lambda typing, x: (result(*arguments), codegen),
        2: lambda typing, x, y: (result(*arguments), codegen),
        3: lambda typing, x, y, z: (result(*arguments), codegen),
        4: lambda typing, x, y, z, w: (result(*arguments), codegen),
    }
    typer = typers[len(arguments)]
    typer.__doc__ = doc
    return intrinsic(typer)


def _llvm(name: str) -> Callable[..., Any]:
    """Emit a call of the LLVM intrinsic of this name on float lanes."""

    def emit(builder: Any, *args: Any) -> Any:
        kind = ir.FunctionType(_VF, [_VF] * len(args))
        full = f"llvm.{name}.v{WIDTH}f32"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), args)

    return emit


def _splat(vector: Any) -> Callable[..., Any]:
    def emit(builder: Any, scalar: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        one = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
        return builder.shuffle_vector(one, undefined, ir.Constant(_VI, [0] * WIDTH))

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


_one, _two, _three = (f32x8,), (f32x8,) * 2, (f32x8,) * 3
splat = _operation(f32x8, (types.float32,), _splat(_VF), "The scalar in every lane.")
fma = _operation(f32x8, _three, _llvm("fma"), "x * y + z, rounded once.")
absolute = _operation(f32x8, _one, _llvm("fabs"), "|x|.")
larger = _operation(f32x8, _two, _larger, "x where x > y, else y (y where x is NaN).")
smaller = _operation(f32x8, _two, _smaller, "x where x < y, else y (y where x is NaN).")
chosen_above = _operation(
    f32x8,
    (f32x8,) * 4,
    lambda b, x, y, high, low: b.select(b.fcmp_ordered(">", x, y), high, low),
    "`high` where x > y, else `low`.",
)
lane_sum = _operation(
    types.float32, _one, _tree(lambda b, x, y: b.fadd(x, y)), "((0+4)+(2+6)) + ((1+5)+(3+7))."
)
lane_max = _operation(types.float32, _one, _tree(_larger), "The largest lane; NaN may be lost.")
any_not_below = _operation(
    types.boolean, _two, _any_not_below, "Whether not x < y in some lane: true for a NaN."
)
first_lane = _operation(
    types.float32, _one, lambda b, x: b.extract_element(x, ir.Constant(_I32, 0)), "Lane 0."
)

# -- bits, for exponents ------------------------------------------------------------------------

int_splat = _operation(i32x8, (types.int32,), _splat(_VI), "The integer in every lane.")
bits = _operation(i32x8, _one, lambda b, x: b.bitcast(x, _VI), "The same bits as integers.")
floats = _operation(f32x8, (i32x8,), lambda b, x: b.bitcast(x, _VF), "The same bits as floats.")
converted = _operation(f32x8, (i32x8,), lambda b, x: b.sitofp(x, _VF), "The integers as floats.")


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
    emit = _operation(lanes, (lanes, lanes), lambda b, x, y: getattr(b, instruction)(x, y), "")

    @overload(symbol)
    def typed(x, y):
        return (lambda x, y: emit(x, y)) if x == lanes and y == lanes else None


for _symbol, (_float_op, _int_op) in _OPERATORS.items():
    if _float_op:
        _register(_symbol, _float_op, f32x8)
    if _int_op:
        _register(_symbol, _int_op, i32x8)

__all__ = [
    "WIDTH",
    "Lanes",
    "absolute",
    "any_not_below",
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
    "padded",
    "prefetch",
    "put",
    "smaller",
    "splat",
    "store",
]
