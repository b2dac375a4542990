"""The lengths of the latent vectors, from the paper's K, o and s (section III-B).

A user feature's vector has d = (K-1) o + s entries: o shared with each other user feature, s of
its own. The user's vector and every ad feature's have N = K(K-1)/2 o + K s.
"""

from typing import NamedTuple

from divergence.errors import InputError
from divergence.simd import padded
from trainer.features import FeatureSpec

PARTS = 3  # of a row: values, sums, low parts of the sums


class Shape(NamedTuple):
    """What a kernel knows of a model. Slots are 0 where events differ in their number of slots."""

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
    """The shape of a model with these features; `InputError` if its vectors have no entries."""
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
