"""Which columns of an event table are features, on which side, and of what kind."""

from dataclasses import dataclass

from divergence.errors import InputError


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature: a column. Each of its values has a latent vector.

    A `multi` feature has several values per event; its vector is their weighted mean. Weights
    come from a `list` column named by `weights`, or with the values (a map, or a list of structs
    of value and weight), or are equal.
    """

    name: str
    multi: bool = False
    weights: str | None = None

    def __post_init__(self) -> None:
        """Refuse an invalid feature."""
        if not self.name:
            raise InputError("a feature's name must not be empty")
        if self.weights is not None and not self.multi:
            raise InputError(
                f"feature {self.name!r}: weights={self.weights!r} needs multi: true, "
                "since a single value has no weight"
            )


@dataclass(frozen=True, slots=True)
class FeatureSpec:
    """The features of an event table, in order, and the columns beside them."""

    user: tuple[Feature, ...]
    ad: tuple[Feature, ...]
    label: str = "click"
    timestamp: str | None = "timestamp"

    def __post_init__(self) -> None:
        """Refuse a side without features, and a column that is used twice."""
        for side, features in (("user", self.user), ("ad", self.ad)):
            if not features:
                raise InputError(f"features.{side} must name at least one feature, but is empty")
        roles = [f.name for f in self.features]
        roles += [f.weights for f in self.features if f.weights is not None]
        roles += [self.label] + ([self.timestamp] if self.timestamp is not None else [])
        twice = sorted({name for name in roles if roles.count(name) > 1})
        if twice:
            raise InputError(f"column {twice[0]!r} is used more than once in the features")

    @property
    def features(self) -> tuple[Feature, ...]:
        """User features, then ad features: the order of feature numbers everywhere."""
        return self.user + self.ad
