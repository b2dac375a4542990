"""Subnormal numbers as zero, for as long as a kernel runs."""

import platform
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I32, _I64 = ir.IntType(32), ir.IntType(64)
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
