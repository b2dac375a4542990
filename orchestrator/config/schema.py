"""A run's config as frozen, checked objects. `config_file` reads them from YAML."""

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from orchestrator.config.ranges import Bound, Choice, Interval, Multiples, Range, positive
from orchestrator.config.rules import RULES, AnyRule
from orchestrator.sources.registry import AnySource
from orchestrator.validation.errors import mistake, one_of, shorthand
from orchestrator.validation.strict import Items, Strict
from trainer.features import Feature, FeatureSpec

PositiveRange = Annotated[Range, AfterValidator(positive)]
Factor = Annotated[float, Field(ge=1)]


class FeatureConfig(Strict):
    """A feature: its column, and for one of several values the column of their weights."""

    name: str = Field(min_length=1)
    multi: bool = False
    weights: str | None = None


AnyFeature = Annotated[
    FeatureConfig,
    shorthand(FeatureConfig, lambda data: {"name": data} if isinstance(data, str) else data),
]


class FeaturesConfig(Strict):
    """The columns of the event table. Left out where the source brings its own."""

    user: Items[AnyFeature] = Field(min_length=1)
    ad: Items[AnyFeature] = Field(min_length=1)
    label: str = "click"
    timestamp: str | None = "timestamp"


class Accumulators(Strict):
    """What a cycle's AdaGrad sums begin with: the champion's, times `decay`."""

    decay: float = Field(default=1.0, ge=0, le=1)


def _accumulators(data: object) -> object:
    if isinstance(data, dict | Accumulators):
        return data
    if data not in ("keep", "reset"):
        raise mistake("must be keep, reset or {decay: x}", data)
    return {"decay": 1.0 if data == "keep" else 0.0}


class ModelOptions(Strict):
    """The model's shape and life."""

    overlap: int = Field(default=2, ge=1)
    """Entries that each pair of user features shares (o)."""
    alone: int = Field(default=2, ge=0)
    """Entries that each user feature has alone (s)."""
    init_std: float = Field(default=0.05, gt=0)
    tau: float = Field(default=15.0, gt=0)
    expire_after: int | None = Field(default=96, ge=1)
    """Cycles after which an unseen value is dropped."""
    accumulators: Annotated[Accumulators, shorthand(Accumulators, _accumulators)] = Accumulators()
    """keep, reset or {decay: x}."""


class Ranges(Strict):
    """Where settings are drawn. The paper gives no ranges: these are our choice."""

    eta0: PositiveRange = Interval(low=0.03, high=30)
    alpha: Range = Interval(low=0.1, high=100)
    beta: Range = Interval(low=0.3, high=0.9)
    rho: Annotated[Bound, AfterValidator(positive)] = Multiples(k=Choice(choice=(0.1,)))
    lam: Range = Interval(low=1e-5, high=1e-2)
    dual_step: PositiveRange = Interval(low=1, high=30)


class ArmRanges(Strict):
    """An arm's own step-size ranges. Those of its rule stand with the rule."""

    eta0: PositiveRange | None = None
    alpha: Range | None = None
    beta: Range | None = None


class GridSampler(Strict):
    """Every combination in turn, `points` along an interval, over as many cycles as it takes."""

    kind: Literal["grid"] = "grid"
    points: int = Field(default=3, ge=1)


class RandomSampler(Strict):
    """Independent draws from the ranges."""

    kind: Literal["random"] = "random"


class Spread(Strict):
    """By what factor a move may multiply or divide."""

    eta0: Factor = 10.0
    alpha: Factor = 10.0
    beta: Factor = 1.6
    rho: Factor = 3.0
    lam: Factor = 10.0
    dual_step: Factor = 3.0


class AdaptiveSampler(Strict):
    """Moves around the last champion's setting, which itself is always tried again."""

    kind: Literal["adaptive"] = "adaptive"
    explore: float = Field(default=0.1, ge=0, le=1)
    """Share of the instances that is drawn from the whole ranges."""
    spread: Spread = Spread()
    follow: str | None = None
    """The arm around whose champion all arms draw eta0, alpha, beta; none: each its own."""


Sampler = GridSampler | RandomSampler | AdaptiveSampler


class SearchConfig(Strict):
    """What the instances of a cycle try."""

    instances: int = Field(default=16, ge=1)
    sampler: Annotated[
        Sampler,
        one_of({"grid": GridSampler, "random": RandomSampler, "adaptive": AdaptiveSampler}, "kind"),
    ] = AdaptiveSampler()
    ranges: Ranges = Ranges()


class StartFrom(Strict):
    """The arm begins at `cycle` (none of its cycles come before), with what `arm` has by then."""

    arm: str
    cycle: int = Field(ge=1)


class ArmConfig(Strict):
    """One rule with its own line of models."""

    name: str
    rule: AnyRule = RULES["none"](name="none")
    ranges: ArmRanges = ArmRanges()
    start_from: StartFrom | None = None
    family: str | None = None
    """The arm of the config that this one was made from by `sustain`."""

    @field_validator("name")
    @classmethod
    def _a_folder_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
            raise mistake("must be at most 64 of A-Z a-z 0-9 . _ -, a letter or digit first", name)
        return name

    @property
    def first_cycle(self) -> int:
        """The first cycle that this arm trains in."""
        return self.start_from.cycle if self.start_from else 0


class Sustain(Strict):
    """A grid of settings that are kept for the whole run, instead of a search.

    Every arm becomes one arm for each setting, with its own line of models.
    """

    eta0: Items[Annotated[float, Field(gt=0)]] = Field(min_length=1)
    alpha: Items[Annotated[float, Field(ge=0)]] = Field(min_length=1)
    beta: Items[Annotated[float, Field(ge=0)]] = Field(min_length=1)


class Retention(Strict):
    """Which models stay in the run folder: the newest, and every so-manieth for ever."""

    keep_last: int = Field(default=8, ge=1)
    keep_every: int | None = Field(default=None, ge=1)


class PublishConfig(Strict):
    """Where champions are published after each commit, for serving to follow."""

    to: str = Field(min_length=1)
    """A folder or object-store URI, of its own."""
    arm: str | None = None
    """Whose champions; none: the first arm's."""
    deltas: bool = True
    """Publish what changed against the version before; false: the whole model every time."""
    keep_last: int = Field(default=16, ge=1)
    """Versions that stay, the newest one included."""


class StreamConfig(Strict):
    """Whence the events come, and what of them is a feature."""

    source: AnySource
    features: FeaturesConfig | None = None


class RunConfig(StreamConfig):
    """A run, whole."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    cycles: int | None = Field(default=None, ge=1)
    """How many; none: until the source ends."""
    model: ModelOptions = ModelOptions()
    search: SearchConfig = SearchConfig()
    sustain: Sustain | None = None
    arms: Items[ArmConfig] = Field(min_length=1)
    deadline_s: float | None = Field(default=None, gt=0)
    """Wall-clock budget of a cycle: at its end the best of what is finished wins."""
    tries: int = Field(default=3, ge=1)
    """How often an instance may be begun before it counts as failed."""
    patience_s: float = Field(default=30.0, gt=0)
    """How long beyond ten times what its work should take a process may be silent before it is
    replaced."""
    actors: int | Literal["auto"] = "auto"
    """Trainer processes; auto: one per core."""
    retention: Retention = Retention()
    publish: PublishConfig | None = None

    @field_validator("actors", mode="plain")
    @classmethod
    def _some_actors(cls, value: Any) -> Any:
        if value == "auto" or (type(value) is int and value >= 1):
            return value
        raise mistake("must be auto or a whole number >= 1", value)


def published_arm(config: RunConfig) -> str:
    """Whose champions are published and served, unless one is named."""
    named = config.publish.arm if config.publish is not None else None
    return named or config.arms[0].name


def feature_spec(features: FeaturesConfig | None) -> FeatureSpec | None:
    """The features as the trainer takes them."""
    if features is None:
        return None
    user, ad = (
        tuple(Feature(f.name, f.multi, f.weights) for f in side)
        for side in (features.user, features.ad)
    )
    return FeatureSpec(user, ad, features.label, features.timestamp)


def identity(config: RunConfig) -> dict[str, Any]:
    """What of the config decides the bits of every cycle.

    How many cycles, processes, tries and kept models there are, and where champions are published,
    does not change what is learnt. A deadline does, since it decides by the clock.
    """
    no_matter = {"cycles", "actors", "tries", "patience_s", "retention", "publish"}
    return config.model_dump(mode="json", exclude=no_matter)


def config_hash(config: RunConfig) -> str:
    """Equal for configs that give the same bits in every cycle they share."""
    text = json.dumps(identity(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
