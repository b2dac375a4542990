"""The config of a run as frozen, validated objects. `config/file.py` reads them from YAML."""

import hashlib
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

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
from orchestrator.config.trainers import AnyTrainer, OffsetConfig
from orchestrator.sources.registry import AnySource
from orchestrator.validation.errors import mistake, one_of, read_as, shorthand, validate_with
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
    """The column. A text alone is short for {name: text}."""
    multi: bool = False
    """Whether an event has a list of values."""
    weights: str | None = None
    """The column with a list of weights, one for each value."""


AnyFeature = Annotated[
    FeatureConfig,
    shorthand(FeatureConfig, lambda data: {"name": data} if isinstance(data, str) else data),
]


class FeaturesConfig(Strict):
    """The columns of the event table. Omit it if the source defines its own features."""

    user: Items[AnyFeature] = Field(min_length=1)
    """Features of the user and the context."""
    ad: Items[AnyFeature] = Field(min_length=1)
    """Features of the ad."""
    label: str = "click"
    """The column of clicks, 0 or 1; `source.click` makes it from another column."""
    timestamp: str | None = "timestamp"
    """The column of times; null if there are none (then cut by events)."""


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
    init_std: float = Field(default=0.15, ge=1e-30, le=100)
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
    lam: Range = Interval(low=1e-4, high=1e-3)
    dual_step: PositiveRange = Choice(choice=(30.0,))


class ArmRanges(Strict):
    """Step-size ranges of one arm. Ranges of its rule's parameters belong under `rule`."""

    eta0: PositiveRange | None = None
    alpha: Range | None = None
    beta: Range | None = None


class GridSampler(Strict):
    """A full grid with `points` along each interval, tried in order over several cycles."""

    kind: Literal["grid"] = "grid"
    points: int = Field(default=3, ge=1, le=10_000)
    """Values along each interval."""


class RandomSampler(Strict):
    """Independent random draws from the ranges."""

    kind: Literal["random"] = "random"


class Spread(Strict):
    """The largest factor by which a draw may differ from the last champion's value."""

    eta0: Factor = 30.0
    alpha: Factor = 30.0
    beta: Factor = 1.6
    rho: Factor = 3.0
    lam: Factor = 10.0
    dual_step: Factor = 3.0
    others: Factor = 3.0
    """Any other parameter of a rule."""


class AdaptiveSampler(Strict):
    """Draws around the last champion's setting. That setting itself is tried again every cycle."""

    kind: Literal["adaptive"] = "adaptive"
    explore: float = Field(default=0.2, ge=0, le=1)
    """Fraction of the instances that is drawn from the full ranges."""
    spread: Spread = Spread()
    follow: str | None = None
    """All arms draw eta0, alpha and beta around this arm's champion; none: each around its own."""


Sampler = GridSampler | RandomSampler | AdaptiveSampler


class ChampionSelect(Strict):
    """The paper's: all instances start from one model, and the best in-chunk survivor wins."""

    kind: Literal["champion"] = "champion"


class FirstSetting(Strict):
    """The setting that lines start around. Line 0 starts with exactly this one.

    It is one of two settings that are best on the mean of the development streams, and level within
    the noise: `scripts/bench/README.md` has the table.
    """

    eta0: float = Field(default=0.6, gt=0, le=LARGEST)
    alpha: float = Field(default=1.0, gt=0, le=LARGEST)
    beta: float = Field(default=0.7, ge=0, le=2)


class StepSpread(Strict):
    """The largest factor by which a line's first step sizes may differ from `start`."""

    eta0: Factor = 6.0
    alpha: Factor = 6.0
    beta: Factor = 1.3


class LineagesSelect(Strict):
    """Every instance continues a line with its own setting and model.

    Lines are ranked by discounted served log-loss. The best one is the champion. Lines that are
    worse with certainty are replaced by copies of good ones with perturbed settings.
    """

    kind: Literal["lineages"] = "lineages"
    start: FirstSetting = FirstSetting()
    within: StepSpread = StepSpread()
    half_life: float = Field(default=8.0, gt=0, le=1e6)
    """After so many cycles a served log-loss counts half."""
    replace_every: Items[Cycles] = Field(default=(8,))
    """Lines are dealt into so many groups. Every so many cycles, the worst of a group are replaced
    if they are worse than the champion with certainty. Empty: only lines that diverge are."""
    replace_share: float = Field(default=0.25, gt=0, le=0.5)
    """The largest share of a group that is replaced at a time, at least one line."""
    spread: Spread = Spread(eta0=3.0, alpha=3.0, beta=1.2, rho=1.5, lam=3.0, dual_step=3.0)
    """The largest factor by which a copy's setting differs from that of its parent."""


Select = ChampionSelect | LineagesSelect


class SearchConfig(Strict):
    """How many instances a cycle has, which settings they try, and how one is selected."""

    instances: int = Field(default=16, ge=1, le=100_000)
    """At most 100,000: every one of them has its outcome in the record of the cycle."""
    sampler: Annotated[
        Sampler,
        one_of({"grid": GridSampler, "random": RandomSampler, "adaptive": AdaptiveSampler}, "kind"),
    ] = AdaptiveSampler()
    """How settings are drawn: adaptive, around the last champion's; random, from the full ranges;
    or grid, all points of a grid in turn. With select: lineages it must not be given."""
    ranges: Ranges = Ranges()
    select: Annotated[
        Select, one_of({"champion": ChampionSelect, "lineages": LineagesSelect}, "kind")
    ] = ChampionSelect()
    """champion: all instances start from one model, and the best on the chunk wins, as in the
    paper; lineages: each instance is a line with its own setting and model, and what lines would
    have served ranks them."""


class StartFrom(Strict):
    """The arm starts at `cycle` instead of 0, with the champion that `arm` has by then."""

    arm: str
    """An arm that is listed before this one."""
    cycle: Cycles
    """The first cycle of this arm."""


class StartFromRun(Strict):
    """The arm starts with the champion of another run, whose features, rule and geometry may
    differ: what both models have is kept, everything else starts anew."""

    run: Uri
    """The other run's folder or URI."""
    arm: str | None = None
    """The arm of that run. Default: the one it publishes, else its first."""
    cycle: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """The champion after this cycle; its files must still be there. Default: the newest."""


def _start(data: object) -> object:
    if data is None or isinstance(data, StartFrom | StartFromRun):
        return data
    from_run = isinstance(data, dict) and "run" in data
    return read_as(StartFromRun if from_run else StartFrom, data)


class ArmConfig(Strict):
    """One rule with its own sequence of models."""

    name: str
    """The name of its folders, and in tables."""
    rule: AnyRule = RULES["holdfast"](name="holdfast")
    """A rule's name, or its name and parameters."""
    ranges: ArmRanges = ArmRanges()
    start_from: Annotated[StartFrom | StartFromRun | None, validate_with(_start)] = None
    """{arm, cycle}: another arm's champion; {run}: that of another run."""
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
        return self.start_from.cycle if isinstance(self.start_from, StartFrom) else 0


class Sustain(Strict):
    """A grid of settings that are kept for the whole run, instead of a search.

    Every arm is expanded into one arm for each setting, with its own sequence of models.
    """

    eta0: Items[Annotated[Value, Field(gt=0)]] | None = Field(default=None, min_length=1)
    eta0_over_alpha: Items[Annotated[Value, Field(gt=0)]] | None = Field(default=None, min_length=1)
    """Instead of eta0: the size of the first step, so that eta0 is this many times alpha."""
    alpha: Items[Value] = Field(min_length=1)
    beta: Items[Value] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_kind_of_step(self) -> Self:
        if (self.eta0 is None) == (self.eta0_over_alpha is None):
            raise ValueError("must have either eta0 or eta0_over_alpha")
        if self.eta0_over_alpha is not None and min(self.alpha) <= 0:
            raise ValueError("with eta0_over_alpha, every alpha must be > 0")
        return self

    @property
    def settings(self) -> Iterator[tuple[float, float, float]]:
        """eta0, alpha and beta of every setting."""
        steps = self.eta0 or self.eta0_over_alpha or ()
        for step, alpha, beta in product(steps, self.alpha, self.beta):
            yield (step if self.eta0 else float(f"{step * alpha:.6g}")), alpha, beta


class Retention(Strict):
    """Which models are kept: those of the last `keep_last` cycles, and every `keep_every`-th."""

    keep_last: Cycles = 8
    """Models of this many last cycles are kept."""
    keep_every: Cycles | None = None
    """Also those of every such cycle; none: no others."""


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


class ServeConfig(Strict):
    """What is served: the champion, or a mean of lines."""

    mean_of: int = Field(default=1, ge=1, le=100_000)
    """Serve the mean of the logits of this many lines, the champion and the best of the others, as
    one model that is as many times as wide; 1: the champion alone. Needs search.select: lineages
    and as many instances."""


def _is_local(path: str) -> str:
    if "://" in path:
        raise mistake("must be a folder of this machine: event files are appended to", path)
    return path


class TrackConfig(Strict):
    """Where to log every committed cycle, for people and tools to follow."""

    tensorboard: Annotated[Uri, AfterValidator(_is_local)]
    """A folder of this machine for TensorBoard's event files: RUN/ARM in it. Needs the extra
    `holdfast[tensorboard]`."""


class StreamConfig(Strict):
    """Where the events come from, and which of their columns are features."""

    source: AnySource
    """Where the events come from: a mapping with `kind`, or a kind alone."""
    features: FeaturesConfig | None = None


class RunConfig(StreamConfig):
    """The config of a run."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    """The same seed gives the same bits."""
    cycles: Cycles | None = None
    """The number of cycles; none: until the source ends."""
    trainer: AnyTrainer = OffsetConfig()
    """What trains the instances: offset, torch, river, or python for a class of your own. A mapping
    with `kind`, or a kind alone."""
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
    serve: ServeConfig = ServeConfig()
    publish: PublishConfig | None = None
    track: TrackConfig | None = None

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

    The number of cycles, processes, tries and kept models does not change what is learnt, nor do
    the places of publishing and tracking. A deadline does, because it selects by the clock.
    """
    without_effect = {"cycles", "actors", "tries", "patience_s", "retention", "publish", "track"}
    found = config.model_dump(mode="json", exclude=without_effect)
    if found["search"]["select"] == ChampionSelect().model_dump():  # what older configs mean
        del found["search"]["select"]
    if found["trainer"] == OffsetConfig().model_dump():
        del found["trainer"]
    if found["serve"] == ServeConfig().model_dump():
        del found["serve"]
    return found


def config_hash(config: RunConfig) -> str:
    """A hash that is equal for configs with the same results in every cycle that both have."""
    text = json.dumps(identity(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
