"""The config of a run as frozen, validated objects. `config/file.py` reads them from YAML."""

import hashlib
import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from orchestrator.config.ranges import (
    LARGEST,
    Bound,
    Choice,
    Interval,
    Multiples,
    Range,
    Value,
    positive,
)
from orchestrator.config.rules import RULES, AnyRule
from orchestrator.sources.registry import AnySource
from orchestrator.validation.errors import mistake, one_of, shorthand
from orchestrator.validation.secrets import Uri
from orchestrator.validation.strict import Items, Strict
from trainer.features import Feature, FeatureSpec

PositiveRange = Annotated[Range, AfterValidator(positive)]
MAX_ACTORS = 100_000
Factor = Annotated[float, Field(ge=1, le=LARGEST)]
Seconds = Annotated[float, Field(gt=0, le=31_536_000)]
"""At most a year."""
Cycles = Annotated[int, Field(ge=1, le=1_000_000_000)]
"""A number of cycles: a cycle a second for thirty years."""


class FeatureConfig(Strict):
    """A feature: its column and, for a multi-valued feature, the column of the weights."""

    name: str = Field(min_length=1)
    multi: bool = False
    weights: str | None = None


AnyFeature = Annotated[
    FeatureConfig,
    shorthand(FeatureConfig, lambda data: {"name": data} if isinstance(data, str) else data),
]


class FeaturesConfig(Strict):
    """The columns of the event table. Omit it if the source defines its own features."""

    user: Items[AnyFeature] = Field(min_length=1)
    ad: Items[AnyFeature] = Field(min_length=1)
    label: str = "click"
    timestamp: str | None = "timestamp"


class Accumulators(Strict):
    """A cycle's AdaGrad sums start from the champion's sums times `decay`."""

    decay: float = Field(default=1.0, ge=0, le=1)


def _accumulators(data: object) -> object:
    if isinstance(data, dict | Accumulators):
        return data
    if data not in ("keep", "reset"):
        raise mistake("must be keep, reset or {decay: x}", data)
    return {"decay": 1.0 if data == "keep" else 0.0}


class ModelOptions(Strict):
    """The model's shape, initialisation and limits."""

    overlap: int = Field(default=2, ge=1, le=1024)
    """Vector entries shared by each pair of user features (o in the paper)."""
    alone: int = Field(default=2, ge=0, le=1024)
    """Vector entries that belong to one user feature alone (s in the paper)."""
    init_std: float = Field(default=0.05, ge=1e-30, le=100)
    """Standard deviation of the entries of new vectors."""
    tau: float = Field(default=15.0, gt=0, le=1e18)
    """An instance diverges at the first entry of this size; its square must fit a float32."""
    expire_after: Cycles | None = 96
    """A value that has not occurred for this many cycles is dropped."""
    accumulators: Annotated[Accumulators, shorthand(Accumulators, _accumulators)] = Accumulators()
    """The AdaGrad sums of the champion: keep, reset or {decay: x}."""


class Ranges(Strict):
    """The ranges that settings are drawn from. The paper gives none: the defaults are ours."""

    eta0: PositiveRange = Interval(low=0.03, high=30)
    alpha: Range = Interval(low=0.1, high=100)
    beta: Range = Interval(low=0.3, high=0.9)
    rho: Annotated[Bound, AfterValidator(positive)] = Multiples(k=Choice(choice=(0.1,)))
    lam: Range = Interval(low=1e-5, high=1e-2)
    dual_step: PositiveRange = Interval(low=1, high=30)


class ArmRanges(Strict):
    """Step-size ranges of one arm. Ranges of its rule's parameters belong under `rule`."""

    eta0: PositiveRange | None = None
    alpha: Range | None = None
    beta: Range | None = None


class GridSampler(Strict):
    """A full grid with `points` along each interval, tried in order over several cycles."""

    kind: Literal["grid"] = "grid"
    points: int = Field(default=3, ge=1, le=10_000)


class RandomSampler(Strict):
    """Independent random draws from the ranges."""

    kind: Literal["random"] = "random"


class Spread(Strict):
    """The largest factor by which a draw may differ from the last champion's value."""

    eta0: Factor = 10.0
    alpha: Factor = 10.0
    beta: Factor = 1.6
    rho: Factor = 3.0
    lam: Factor = 10.0
    dual_step: Factor = 3.0


class AdaptiveSampler(Strict):
    """Draws around the last champion's setting. That setting itself is tried again every cycle."""

    kind: Literal["adaptive"] = "adaptive"
    explore: float = Field(default=0.1, ge=0, le=1)
    """Fraction of the instances that is drawn from the full ranges."""
    spread: Spread = Spread()
    follow: str | None = None
    """All arms draw eta0, alpha and beta around this arm's champion; none: each around its own."""


Sampler = GridSampler | RandomSampler | AdaptiveSampler


class SearchConfig(Strict):
    """How many instances a cycle has, and which settings they try."""

    instances: int = Field(default=16, ge=1, le=100_000)
    """At most 100,000: every one of them has its outcome in the record of the cycle."""
    sampler: Annotated[
        Sampler,
        one_of({"grid": GridSampler, "random": RandomSampler, "adaptive": AdaptiveSampler}, "kind"),
    ] = AdaptiveSampler()
    ranges: Ranges = Ranges()


class StartFrom(Strict):
    """The arm starts at `cycle` instead of 0, with the champion that `arm` has by then."""

    arm: str
    cycle: Cycles


class ArmConfig(Strict):
    """One rule with its own sequence of models."""

    name: str
    rule: AnyRule = RULES["none"](name="none")
    ranges: ArmRanges = ArmRanges()
    start_from: StartFrom | None = None
    family: str | None = None
    """Set by `sustain`: the name of the arm that this one was expanded from."""

    @field_validator("name")
    @classmethod
    def _check_folder_name(cls, name: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
            raise mistake(
                "must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit", name
            )
        return name

    @property
    def first_cycle(self) -> int:
        """The first cycle that this arm trains in."""
        return self.start_from.cycle if self.start_from else 0


class Sustain(Strict):
    """A grid of settings that are kept for the whole run, instead of a search.

    Every arm is expanded into one arm for each setting, with its own sequence of models.
    """

    eta0: Items[Annotated[Value, Field(gt=0)]] = Field(min_length=1)
    alpha: Items[Value] = Field(min_length=1)
    beta: Items[Value] = Field(min_length=1)


class Retention(Strict):
    """Which models are kept: those of the last `keep_last` cycles, and every `keep_every`-th."""

    keep_last: Cycles = 8
    keep_every: Cycles | None = None


class PublishConfig(Strict):
    """Where to publish the champion after each commit, for serving processes to follow."""

    to: Uri
    """A folder or object-store URI, which must not be the run folder."""
    arm: str | None = None
    """The arm whose champions are published; none: the first arm."""
    deltas: bool = True
    """Publish only what changed since the last version; false: the full model every time."""
    keep_last: Cycles = 16
    """How many versions are kept, including the newest."""


class StreamConfig(Strict):
    """Where the events come from, and which of their columns are features."""

    source: AnySource
    features: FeaturesConfig | None = None


class RunConfig(StreamConfig):
    """The config of a run."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    cycles: Cycles | None = None
    """The number of cycles; none: until the source ends."""
    model: ModelOptions = ModelOptions()
    search: SearchConfig = SearchConfig()
    sustain: Sustain | None = None
    arms: Items[ArmConfig] = Field(min_length=1)
    deadline_s: Seconds | None = None
    """Time limit of a cycle in seconds. When it is over, the best finished instance wins."""
    tries: int = Field(default=3, ge=1, le=1000)
    """How many times an instance is tried before it counts as failed."""
    patience_s: Seconds = 30.0
    """A trainer process that does not answer is replaced after ten times the expected duration of
    its work plus this many seconds."""
    actors: int | Literal["auto"] = "auto"
    """The number of trainer processes; auto: one per core."""
    retention: Retention = Retention()
    publish: PublishConfig | None = None

    @field_validator("actors", mode="plain")
    @classmethod
    def _check_actors(cls, value: Any) -> Any:
        if type(value) is int and value > MAX_ACTORS:
            raise mistake(f"must be at most {MAX_ACTORS}", value)
        if value == "auto" or (type(value) is int and value >= 1):
            return value
        raise mistake("must be auto or an integer >= 1", value)


def published_arm(config: RunConfig) -> str:
    """The arm that is published and served by default."""
    named = config.publish.arm if config.publish is not None else None
    return named or config.arms[0].name


def feature_spec(features: FeaturesConfig | None) -> FeatureSpec | None:
    """The features in the form that the trainer takes."""
    if features is None:
        return None
    user, ad = (
        tuple(Feature(f.name, f.multi, f.weights) for f in side)
        for side in (features.user, features.ad)
    )
    return FeatureSpec(user, ad, features.label, features.timestamp)


def identity(config: RunConfig) -> dict[str, Any]:
    """The part of the config that determines the results of every cycle.

    The number of cycles, processes, tries and kept models does not change what is learnt, nor does
    the place of publishing. A deadline does, because it selects by the clock.
    """
    without_effect = {"cycles", "actors", "tries", "patience_s", "retention", "publish"}
    return config.model_dump(mode="json", exclude=without_effect)


def config_hash(config: RunConfig) -> str:
    """A hash that is equal for configs with the same results in every cycle that both have."""
    text = json.dumps(identity(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
