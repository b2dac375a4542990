"""Feature specs and the geometry that follows from them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divergence.errors import InputError
from trainer.features import Feature, FeatureSpec
from trainer.geometry import Shape, shape_of


def spec_of(users: int, ads: int, *, multi: bool = False) -> FeatureSpec:
    user = tuple(Feature(f"u{i}", multi=multi and i == 0) for i in range(users))
    return FeatureSpec(user, tuple(Feature(f"a{i}") for i in range(ads)))


def refusal(make: object) -> str:
    with pytest.raises(InputError) as caught:
        make()  # type: ignore[operator]
    return str(caught.value)


def test_features_are_numbered_users_first() -> None:
    spec = spec_of(2, 2)
    assert [f.name for f in spec.features] == ["u0", "u1", "a0", "a1"]


def test_a_feature_needs_a_name() -> None:
    assert refusal(lambda: Feature("")) == "a feature's name must not be empty"


def test_only_a_multi_feature_has_weights() -> None:
    assert refusal(lambda: Feature("age", weights="w")) == (
        "feature 'age': weights='w' needs multi: true, since a single value has no weight"
    )


@pytest.mark.parametrize("side", ["user", "ad"])
def test_each_side_has_a_feature(side: str) -> None:
    sides = {"user": (Feature("u"),), "ad": (Feature("a"),), side: ()}
    assert refusal(lambda: FeatureSpec(**sides)) == (
        f"features.{side} must name at least one feature, but is empty"
    )


@pytest.mark.parametrize(
    ("user", "ad", "more", "twice"),
    [
        ("x", "x", {}, "x"),
        ("click", "a", {}, "click"),
        ("timestamp", "a", {}, "timestamp"),
        ("y", "a", {"label": "y"}, "y"),
        ("u", "a", {"label": "t", "timestamp": "t"}, "t"),
    ],
)
def test_a_column_plays_one_role(user: str, ad: str, more: dict[str, str], twice: str) -> None:
    assert refusal(lambda: FeatureSpec((Feature(user),), (Feature(ad),), **more)) == (
        f"column {twice!r} is used more than once in the features"
    )


def test_weights_are_a_role_too() -> None:
    both = (Feature("g", multi=True, weights="w"), Feature("h", multi=True, weights="w"))
    assert refusal(lambda: FeatureSpec(both, (Feature("a"),))) == (
        "column 'w' is used more than once in the features"
    )


def test_a_stream_may_have_no_timestamp() -> None:
    spec = FeatureSpec((Feature("timestamp"),), (Feature("a"),), timestamp=None)
    assert spec.features[0].name == "timestamp"


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_the_lengths_are_the_papers(k: int, o: int, s: int, multi: bool) -> None:
    d, n = (k - 1) * o + s, k * (k - 1) // 2 * o + k * s
    spec = spec_of(k, 3, multi=multi)
    if n == 0:
        assert refusal(lambda: shape_of(spec, o, s)) == (
            f"vectors have no entries: {k} user features with overlap={o} and alone={s}"
        )
        return
    shape = shape_of(spec, o, s)
    assert (shape.user, shape.ad) == (d, n)
    assert shape.user_padded % 8 == shape.ad_padded % 8 == 0
    assert 0 <= shape.user_padded - d < 8
    assert 0 <= shape.ad_padded - n < 8
    assert (shape.user_slots, shape.ad_slots) == ((0, 0) if multi else (k, 3))
    assert k * d == 2 * (n - k * s) + k * s  # every entry of a feature is in a pair or alone


def test_the_papers_example() -> None:
    assert shape_of(spec_of(3, 4), 4, 2) == Shape(3, 4, 2, 10, 18, 16, 24, 3, 4)


def test_lengths_are_not_negative() -> None:
    assert refusal(lambda: shape_of(spec_of(2, 1), -1, 3)) == (
        "model.overlap and model.alone must be >= 0, but are -1 and 3"
    )
