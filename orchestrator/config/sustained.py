"""Sustained settings: a grid of arms, each of which keeps one setting for the whole run."""

import math
from collections.abc import Iterator

from orchestrator.config.ranges import Choice
from orchestrator.config.rules import searched
from orchestrator.config.schema import ArmConfig, ArmRanges, RunConfig, Sustain
from orchestrator.validation.errors import Mistake, cut

MAX_NAME_LENGTH = 64
MAX_ARMS = 4096
"""Each has its own models and records."""


def sustain_mistakes(config: RunConfig) -> list[Mistake]:
    """Mistakes that prevent an arm from having a single setting."""
    if config.sustain is None:
        return []
    found: list[Mistake] = []
    for name, values in _lists(config.sustain):
        texts = [_in_name(value) for value in values]
        if len(set(texts)) < len(texts):
            text = f"values must differ in their first six digits, but are {cut(', '.join(texts))}"
            found.append((("sustain", name), text))
    settings = math.prod(len(values) for _, values in _lists(config.sustain))
    if settings * len(config.arms) > MAX_ARMS:
        text = f"must make at most {MAX_ARMS} arms, but makes {settings * len(config.arms)}"
        return [(("sustain",), text)]
    longest = max(len(made.name) for arm in config.arms for made in _expanded(arm, config.sustain))
    if longest > MAX_NAME_LENGTH:
        text = f"an arm name must have at most {MAX_NAME_LENGTH} characters, but one has {longest}"
        found.append((("sustain",), text))
    if getattr(config.search.sampler, "follow", None) is not None:
        found.append(
            (("search", "sampler", "follow"), "must be omitted with sustain, which runs no search")
        )
    if config.publish is not None and config.publish.arm is not None:
        found.append((("publish", "arm"), "must be omitted with sustain"))
    for i, arm in enumerate(config.arms):
        path = ("arms", i)
        for name in searched(arm.rule):
            span = getattr(arm.rule, name) or getattr(config.search.ranges, name)
            choice = getattr(getattr(span, "k", span), "choice", ())
            if len(choice) != 1:
                text = "must be a single number with sustain, but is a range"
                found.append(((*path, "rule", name), text))
        if arm.start_from is not None:
            text = "must be omitted with sustain: every arm starts with a new model"
            found.append(((*path, "start_from"), text))
    return found


def sustained(config: RunConfig) -> RunConfig:
    """Expand `sustain` into one arm for each setting; other configs are returned unchanged."""
    if config.sustain is None:
        return config
    arms = tuple(made for arm in config.arms for made in _expanded(arm, config.sustain))
    one = config.search.model_copy(update={"instances": 1})
    return config.model_copy(update={"sustain": None, "arms": arms, "search": one})


def _lists(grid: Sustain) -> list[tuple[str, tuple[float, ...]]]:
    """The lists that span the grid."""
    named = ((name, getattr(grid, name)) for name in Sustain.model_fields)
    return [(name, values) for name, values in named if values is not None]


def _expanded(arm: ArmConfig, grid: Sustain) -> Iterator[ArmConfig]:
    for eta0, alpha, beta in grid.settings:
        fixed = {"eta0": eta0, "alpha": alpha, "beta": beta}
        name = "_".join([arm.name, *(f"{key}-{_in_name(value)}" for key, value in fixed.items())])
        ranges = ArmRanges(**{key: Choice(choice=(value,)) for key, value in fixed.items()})
        yield ArmConfig.model_construct(
            name=name, rule=arm.rule, ranges=ranges, start_from=None, family=arm.name
        )


def _in_name(value: float) -> str:
    """A number as part of a folder name."""
    return f"{value:g}".replace("+", "")
