"""The config of an A/B test in the simulated marketplace."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from orchestrator.config.schema import (
    AdaptiveSampler,
    ArmConfig,
    ModelOptions,
    RunConfig,
    SearchConfig,
    StreamConfig,
)
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.validation.errors import mistake, one_of
from orchestrator.validation.strict import Items, Strict


def _different(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) < len(seeds):
        raise mistake("must be different", seeds)
    return seeds


class AuctionConfig(Strict):
    """How a slot is sold."""

    candidates: int | None = Field(default=50, ge=2)
    """Eligible ads that bid for a request, drawn at random; none: all of them. Targeting and
    pacing let only some in, and without chance a greedy model would never learn of new ads."""
    reserve_usd: float = Field(default=0.05, ge=0)
    """The least that a click costs; a tenth of the simulator's median bid."""


class AbConfig(StreamConfig):
    """Two tuners in one market. Each seed is a trial of its own: another world, another split."""

    source: Annotated[SimulatorConfig, one_of({"simulator": SimulatorConfig}, "kind")]
    """Its `seed` is that of each trial in turn."""
    seeds: Annotated[Items[Annotated[int, Field(ge=0, lt=2**31)]], AfterValidator(_different)] = (
        Field(default=(1, 2, 3, 4, 5), min_length=1)
    )
    control: ArmConfig
    treatment: ArmConfig
    share: float = Field(default=0.5, gt=0, lt=1)
    """Of users, in the treatment's bucket."""
    salt: str = "ab"
    """Another salt splits the users otherwise."""
    auction: AuctionConfig = AuctionConfig()
    learn_from: Literal["own", "pooled"] = "own"
    """The traffic that an arm is trained on: its own bucket's, or both buckets'."""
    warm_up_days: int = Field(default=1, ge=1)
    """The control alone serves and learns; then the treatment begins with its model."""
    acclimation_days: int = Field(default=1, ge=0)
    """Both serve their buckets, and nothing counts yet: the paper's acclimation."""
    days: int = Field(default=9, ge=1)
    """Days that count; the paper's table has nine."""
    model: ModelOptions = ModelOptions()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _two_arms(self) -> Self:
        if self.control.name == self.treatment.name:
            raise ValueError(
                f"control and treatment must have names of their own, but are "
                f"both {self.control.name!r}"
            )
        for arm in (self.control, self.treatment):
            if arm.start_from is not None:
                raise ValueError(
                    f"{arm.name}: start_from must not be given: the treatment begins with the "
                    "control's model after warm_up_days"
                )
        if (
            isinstance(self.search.sampler, AdaptiveSampler)
            and self.search.sampler.follow is not None
        ):
            raise ValueError("search.sampler.follow must not be given: each arm is tuned alone")
        return self

    @property
    def cycles_per_day(self) -> int:
        """Of the market's cycles, how many fill a day."""
        return 24 * 60 // self.source.cycle_minutes

    def tuning(self, seed: int) -> RunConfig:
        """What the arms of one trial are tuned by."""
        return RunConfig(
            source=self.source.model_copy(update={"seed": seed}),
            features=self.features,
            seed=seed,
            model=self.model,
            search=self.search,
            arms=(self.control, self.treatment),
        )
