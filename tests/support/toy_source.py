"""A source that only has a config."""

import threading
from typing import ClassVar, Literal

from pydantic import Field

from orchestrator.sources.protocol import Source, SourceConfig
from trainer.features import Feature, FeatureSpec


class ToySource(SourceConfig):
    own_features: ClassVar[FeatureSpec | None] = FeatureSpec(
        user=(Feature("age"), Feature("genres", multi=True, weights="genre_weights")),
        ad=(Feature("ad_id"),),
    )
    kind: Literal["toy"] = "toy"
    events: int = Field(default=100, ge=1)

    def open(self, spec: FeatureSpec, run_uri: str | None, stop: threading.Event | None) -> Source:
        raise AssertionError("the toy source has no events")
