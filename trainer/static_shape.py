"""A shape as a numba type, so that kernels are compiled for it."""

from typing import Any

from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from trainer.geometry import Shape


class StaticShape:
    """A shape that a kernel is compiled for: its numbers are constants of the machine code.

    Kernels take either. With a plain `Shape` one compilation serves every shape (the tests use
    it); with a static one they are as fast as code written for that shape alone.
    """

    def __init__(self, shape: Shape):
        self.shape = shape


class _StaticShapeType(types.Type):
    def __init__(self, shape: Shape):
        self.shape = shape
        super().__init__(name=f"Static{tuple(shape)}")


@typeof_impl.register(StaticShape)
def _typeof(value: StaticShape, context: Any) -> _StaticShapeType:
    return _StaticShapeType(value.shape)


register_model(_StaticShapeType)(models.OpaqueModel)


@unbox(_StaticShapeType)
def _unbox(kind: _StaticShapeType, value: Any, c: Any) -> NativeValue:
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = _StaticShapeType

    def generic_resolve(self, kind: _StaticShapeType, name: str) -> Any:
        return types.int64 if name in Shape._fields else None


@lower_getattr_generic(_StaticShapeType)
def _attribute(context: Any, builder: Any, kind: _StaticShapeType, value: Any, name: str) -> Any:
    return context.get_constant(types.int64, getattr(kind.shape, name))
