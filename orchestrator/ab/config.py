"""The config of an A/B test in the simulated marketplace."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from orchestrator.ab.counts import DESIGNS, Design
from orchestrator.config.schema import (
    AdaptiveSampler,
    ArmConfig,
    ChampionSelect,
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
    """How an ad slot is sold."""

    candidates: int | None = Field(default=50, ge=2)
    """Eligible ads that bid for a request, drawn at random; null: all of them. In practice,
    targeting and pacing admit only some ads, and without chance a greedy model would never learn
    about new ads."""
    reserve_usd: float = Field(default=0.05, ge=0)
    """The minimum price of a click; a tenth of the simulator's median bid."""


class AbConfig(StreamConfig):
    """Two tuners in one market. Each seed is a separate trial: a new world and a new split."""

    design: Literal["split", "twins", "both"] = "split"
    """split: users are split by a hash, as on a real site. twins: each arm has all users in its
    own copy of the market, with the same arrivals, candidates, bids and coins for clicks, as only
    a simulator can do. both: every seed runs in both designs."""

    source: Annotated[SimulatorConfig, one_of({"simulator": SimulatorConfig}, "kind")]
    """Each trial replaces its `seed`."""
    seeds: Annotated[Items[Annotated[int, Field(ge=0, lt=2**31)]], AfterValidator(_different)] = (
        Field(default=(1, 2, 3, 4, 5), min_length=1)
    )
    control: ArmConfig
    treatment: ArmConfig
    share: float = Field(default=0.5, gt=0, lt=1)
    """The share of users in the treatment's bucket; twins have no buckets."""
    salt: str = "ab"
    """A different salt splits the users differently."""
    auction: AuctionConfig = AuctionConfig()
    learn_from: Literal["own", "pooled"] = "own"
    """The traffic that an arm trains on: that of its own bucket, or of both buckets."""
    warm_up_days: int = Field(default=1, ge=1)
    """Only the control serves and learns; then the treatment starts from the control's model."""
    acclimation_days: int = Field(default=1, ge=0)
    """Both arms serve their buckets, but these days are not counted: the paper's acclimation."""
    days: int = Field(default=9, ge=1)
    """Days that are counted; the paper's table has nine."""
    model: ModelOptions = ModelOptions()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _two_arms(self) -> Self:
        if self.control.name == self.treatment.name:
            raise ValueError(
                f"control and treatment must have different names, but both are "
                f"{self.control.name!r}"
            )
        if self.design != "split" and self.learn_from == "pooled":
            raise ValueError(
                f"learn_from must be own with design: {self.design}, but is pooled: twins do not "
                "see each other's traffic"
            )
        for arm in (self.control, self.treatment):
            if arm.start_from is not None:
                raise ValueError(
                    f"{arm.name}: start_from must not be given: the treatment starts from the "
                    "control's model after warm_up_days"
                )
        if (
            isinstance(self.search.sampler, AdaptiveSampler)
            and self.search.sampler.follow is not None
        ):
            raise ValueError(
                "search.sampler.follow must not be given: each arm is tuned separately"
            )
        if not isinstance(self.search.select, ChampionSelect):
            raise ValueError("search.select must be champion: the test does not run lines")
        return self

    @property
    def designs(self) -> tuple[Design, ...]:
        """The designs of each seed's trials."""
        return DESIGNS if self.design == "both" else (self.design,)

    @property
    def cycles_per_day(self) -> int:
        """How many cycles of the market make up a day."""
        return 24 * 60 // self.source.cycle_minutes

    def tuning(self, seed: int) -> RunConfig:
        """The run config that tunes the arms of one trial."""
        return RunConfig(
            source=self.source.model_copy(update={"seed": seed}),
            features=self.features,
            seed=seed,
            model=self.model,
            search=self.search,
            arms=(self.control, self.treatment),
        )
