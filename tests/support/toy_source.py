"""A source that only has a config."""

from typing import ClassVar, Literal

from pydantic import Field

from orchestrator.sources.protocol import SourceConfig
from trainer.features import Feature, FeatureSpec


class ToySource(SourceConfig):
    own_features: ClassVar[FeatureSpec | None] = FeatureSpec(
        user=(Feature("age"), Feature("genres", multi=True, weights="genre_weights")),
        ad=(Feature("ad_id"),),
    )
    kind: Literal["toy"] = "toy"
    events: int = Field(default=100, ge=1)
