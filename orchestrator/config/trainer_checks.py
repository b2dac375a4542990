"""What means nothing with another trainer than OFFSET: said in one line each, never ignored."""

from collections.abc import Iterator

from divergence.errors import InputError
from orchestrator.config.rules import RULES
from orchestrator.config.schema import (
    ArmConfig,
    ArmRanges,
    LineagesSelect,
    ModelOptions,
    Ranges,
    RunConfig,
    StartFromRun,
)
from orchestrator.config.trainers import StateTrainerConfig
from orchestrator.validation.errors import Mistake

SHAPE = ("overlap", "alone", "init_std", "expire_after", "accumulators")
"""Keys of `model` that are OFFSET's. `tau` is every trainer's."""
STEPS = ("eta0", "alpha", "beta")


def trainer_mistakes(config: RunConfig) -> list[Mistake]:
    """Keys that only OFFSET has, and rules that the trainer does not have."""
    trainer = config.trainer
    if not isinstance(trainer, StateTrainerConfig):
        return []
    only = f"must be omitted with trainer {trainer.kind}: it is for the trainer offset"
    found: list[Mistake] = [(path, only) for path in _unused(config)]
    known = trainer.rules
    for i, arm in enumerate(config.arms):
        if known is not None and arm.rule.name not in known and _names_its_rule(arm):
            names = ", ".join(known)
            text = f"must be {names} with trainer {trainer.kind}, but is {arm.rule.name}"
            found.append((("arms", i, "rule"), text))
    return found


def _unused(config: RunConfig) -> Iterator[tuple[str | int, ...]]:
    """The keys that are set, and mean nothing."""
    yield from (("model", k) for k in SHAPE if _differs(config.model, ModelOptions(), k))
    ranges = config.search.ranges
    yield from (("search", "ranges", k) for k in STEPS if _differs(ranges, Ranges(), k))
    select = config.search.select
    if isinstance(select, LineagesSelect):
        default = LineagesSelect()
        keys = ("start", "within")
        yield from (("search", "select", k) for k in keys if _differs(select, default, k))
    if getattr(config.search.sampler, "follow", None) is not None:
        yield ("search", "sampler", "follow")
    for i, arm in enumerate(config.arms):
        if arm.ranges != ArmRanges():
            yield ("arms", i, "ranges")
        if isinstance(arm.start_from, StartFromRun):
            yield ("arms", i, "start_from", "run")
    if config.sustain is not None:
        yield ("sustain",)
    if config.serve.mean_of > 1:
        yield ("serve", "mean_of")
    if config.publish is not None:
        yield ("publish",)


def _differs(given: object, default: object, key: str) -> bool:
    return bool(getattr(given, key) != getattr(default, key))


def without_unused_rules(config: RunConfig) -> RunConfig:
    """The rule none for arms that name no rule, where the trainer does not have the default one."""
    trainer = config.trainer
    known = trainer.rules if isinstance(trainer, StateTrainerConfig) else None
    if known is None:
        return config
    arms = tuple(
        arm
        if arm.rule.name in known or _names_its_rule(arm)
        else arm.model_copy(update={"rule": RULES["none"](name="none")})
        for arm in config.arms
    )
    return config.model_copy(update={"arms": arms})


def _names_its_rule(arm: ArmConfig) -> bool:
    return "rule" in arm.model_fields_set


def require_offset(config: RunConfig, what: str) -> None:
    """InputError with another trainer; `what` is what only OFFSET can do."""
    kind = config.trainer.kind
    if kind != "offset":
        raise InputError(f"{what} works with the trainer offset only, but this is {kind}")
