"""The lengths of the latent vectors, from the paper's K, o and s (section III-B).

A user feature's vector has d = (K-1) o + s entries: o shared with each other user feature, s of
its own. The user's vector and every ad feature's have N = K(K-1)/2 o + K s.
"""

from typing import Any, NamedTuple

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

from divergence.errors import InputError
from divergence.simd import padded
from trainer.features import FeatureSpec

PARTS = 3  # of a row: values, sums, low parts of the sums


class Shape(NamedTuple):
    """What a kernel knows of a model. Slots are 0 where an event may have any number of them."""

    features: int  # K
    overlap: int  # o
    alone: int  # s
    user: int  # d
    ad: int  # N
    user_padded: int
    ad_padded: int
    user_slots: int
    ad_slots: int


def shape_of(spec: FeatureSpec, overlap: int, alone: int) -> Shape:
    """The shape of a model of these features; refuses one without any entry."""
    k = len(spec.user)
    if overlap < 0 or alone < 0:
        raise InputError(
            f"model.overlap and model.alone must be >= 0, but are {overlap} and {alone}"
        )
    user, ad = (k - 1) * overlap + alone, k * (k - 1) // 2 * overlap + k * alone
    if ad == 0:
        raise InputError(
            f"vectors have no entries: {k} user features with overlap={overlap} and alone={alone}"
        )
    single = not any(feature.multi for feature in spec.features)
    slots = (k, len(spec.ad)) if single else (0, 0)
    return Shape(k, overlap, alone, user, ad, padded(user), padded(ad), *slots)


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
