"""A config whose settings are sustained: a grid of arms, each of which keeps its one setting."""

from collections.abc import Iterator
from itertools import product

from orchestrator.config.ranges import Choice
from orchestrator.config.rules import searched
from orchestrator.config.schema import ArmConfig, ArmRanges, RunConfig, Sustain
from orchestrator.validation.errors import Mistake

LONGEST = 64
"""Characters of an arm's name."""


def sustain_mistakes(config: RunConfig) -> list[Mistake]:
    """What keeps an arm from having one setting."""
    if config.sustain is None:
        return []
    found: list[Mistake] = []
    for name in ("eta0", "alpha", "beta"):
        shown = [_shown(value) for value in getattr(config.sustain, name)]
        if len(set(shown)) < len(shown):
            text = f"values must differ in their first six digits, but are {', '.join(shown)}"
            found.append((("sustain", name), text))
    longest = max(len(made.name) for arm in config.arms for made in _spread(arm, config.sustain))
    if longest > LONGEST:
        text = f"an arm's name would have {longest} characters, more than {LONGEST}"
        found.append((("sustain",), text))
    if getattr(config.search.sampler, "follow", None) is not None:
        found.append((("search", "sampler", "follow"), "must be left out: there is no search"))
    if config.publish is not None and config.publish.arm is not None:
        found.append((("publish", "arm"), "must be left out where settings are sustained"))
    for i, arm in enumerate(config.arms):
        path = ("arms", i)
        for name in searched(arm.rule):
            span = getattr(arm.rule, name) or getattr(config.search.ranges, name)
            choice = getattr(getattr(span, "k", span), "choice", ())
            if len(choice) != 1:
                text = "must be one number where settings are sustained, but is a range"
                found.append(((*path, "rule", name), text))
        if arm.start_from is not None:
            text = "cannot be where settings are sustained: every line begins for itself"
            found.append(((*path, "start_from"), text))
    return found


def sustained(config: RunConfig) -> RunConfig:
    """The config with an arm for each setting, or as it is where it sustains none."""
    if config.sustain is None:
        return config
    arms = tuple(made for arm in config.arms for made in _spread(arm, config.sustain))
    one = config.search.model_copy(update={"instances": 1})
    return config.model_copy(update={"sustain": None, "arms": arms, "search": one})


def _spread(arm: ArmConfig, grid: Sustain) -> Iterator[ArmConfig]:
    for eta0, alpha, beta in product(grid.eta0, grid.alpha, grid.beta):
        fixed = {"eta0": eta0, "alpha": alpha, "beta": beta}
        name = "_".join([arm.name, *(f"{key}-{_shown(value)}" for key, value in fixed.items())])
        ranges = ArmRanges(**{key: Choice(choice=(value,)) for key, value in fixed.items()})
        yield ArmConfig.model_construct(
            name=name, rule=arm.rule, ranges=ranges, start_from=None, family=arm.name
        )


def _shown(value: float) -> str:
    """A number as part of a folder's name."""
    return f"{value:g}".replace("+", "")
