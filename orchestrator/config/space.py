"""The search space of an arm: the range of each parameter that it draws."""

import math

from orchestrator.config.ranges import Choice, Interval, absolute, points_of
from orchestrator.config.rules import searched
from orchestrator.config.schema import ArmConfig, GridSampler, RunConfig
from trainer.setting import PARAMETERS

Space = dict[str, Interval | Choice]
"""The range of each parameter that an arm has, by name."""


def space_of(config: RunConfig, arm: ArmConfig, rho0: float) -> Space:
    """The ranges that the arm draws from: its own where it has some, else the search's."""
    names = ("eta0", "alpha", "beta", *searched(arm.rule))
    own = {name: getattr(arm.ranges, name, None) or getattr(arm.rule, name, None) for name in names}
    return {
        name: absolute(own[name] or getattr(config.search.ranges, name), rho0) for name in names
    }


def grid_size(config: RunConfig) -> int:
    """How many points the config's grid has."""
    return math.prod(grid_axes(config))


def grid_axes(config: RunConfig) -> tuple[int, ...]:
    """Points along each parameter: the most that any arm has there; 1 where no arm searches."""
    points = config.search.sampler.points if isinstance(config.search.sampler, GridSampler) else 1
    spaces = [space_of(config, arm, rho0=1.0) for arm in config.arms]
    return tuple(
        max(points_of(space[name], points) if name in space else 1 for space in spaces)
        for name in PARAMETERS
    )
