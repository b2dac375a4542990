"""A geometry as a numba type, so that kernels are compiled for it."""

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


class FixedShape:
    """A shape that a kernel is compiled for: its numbers are constants of the machine code.

    Kernels take either. With a plain `Shape` one compilation serves every geometry (the tests do
    that); with a fixed one they are as fast as code written for that geometry alone.
    """

    def __init__(self, shape: Shape):
        self.shape = shape


class _FixedShapeType(types.Type):
    def __init__(self, shape: Shape):
        self.shape = shape
        super().__init__(name=f"Fixed{tuple(shape)}")


@typeof_impl.register(FixedShape)
def _typeof(value: FixedShape, context: Any) -> _FixedShapeType:
    return _FixedShapeType(value.shape)


register_model(_FixedShapeType)(models.OpaqueModel)


@unbox(_FixedShapeType)
def _unbox(kind: _FixedShapeType, value: Any, c: Any) -> NativeValue:
    return NativeValue(c.context.get_dummy_value())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = _FixedShapeType

    def generic_resolve(self, kind: _FixedShapeType, name: str) -> Any:
        return types.int64 if name in Shape._fields else None


@lower_getattr_generic(_FixedShapeType)
def _attribute(context: Any, builder: Any, kind: _FixedShapeType, value: Any, name: str) -> Any:
    return context.get_constant(types.int64, getattr(kind.shape, name))
