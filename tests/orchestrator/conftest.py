from typing import ClassVar, Literal

import pytest
from hypothesis import HealthCheck, settings
from pydantic import Field

from orchestrator.sources.protocol import SourceConfig
from orchestrator.sources.registry import SOURCES
from trainer.features import Feature, FeatureSpec

# Shared machines stall: time is no property of ours.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("patient")


class ToySource(SourceConfig):
    own_features: ClassVar[FeatureSpec | None] = FeatureSpec(
        user=(Feature("age"), Feature("genres", multi=True, weights="genre_weights")),
        ad=(Feature("ad_id"),),
    )
    kind: Literal["toy"] = "toy"
    events: int = Field(default=100, ge=1)


@pytest.fixture(autouse=True)
def toy_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "toy", ToySource)
