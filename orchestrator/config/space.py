"""The search space of an arm: a range for each parameter that it draws."""

import math

from orchestrator.config.ranges import Choice, Interval, absolute, grid_points
from orchestrator.config.rules import searched
from orchestrator.config.schema import ArmConfig, GridSampler, RunConfig
from orchestrator.config.trainers import StateTrainerConfig
from trainer.setting import PARAMETERS

Space = dict[str, Interval | Choice]
"""The range of each parameter, by name."""


def space_of(config: RunConfig, arm: ArmConfig, rho0: float) -> Space:
    """The ranges that the arm draws from: its own if it sets any, else `search.ranges`."""
    names = searched_names(config, arm)
    given = config.trainer.ranges if isinstance(config.trainer, StateTrainerConfig) else {}
    own = {name: getattr(arm.ranges, name, None) or getattr(arm.rule, name, None) for name in names}
    return {
        name: given.get(name) or absolute(own[name] or getattr(config.search.ranges, name), rho0)
        for name in names
    }


def searched_names(config: RunConfig, arm: ArmConfig) -> tuple[str, ...]:
    """The parameters that an arm draws: those of the trainer, then those of its rule."""
    trainer = config.trainer
    steps = trainer.ranges if isinstance(trainer, StateTrainerConfig) else ("eta0", "alpha", "beta")
    return (*steps, *searched(arm.rule))


def grid_size(config: RunConfig) -> int:
    """The number of points of the config's grid."""
    return math.prod(grid_axes(config))


def grid_axes(config: RunConfig) -> tuple[int, ...]:
    """Grid points along each coordinate of a draw: the most of any arm; 1 if none searches it."""
    points = config.search.sampler.points if isinstance(config.search.sampler, GridSampler) else 1
    spaces = [space_of(config, arm, rho0=1.0) for arm in config.arms]
    return tuple(
        max(grid_points(span, points) if (span := _at(space, i)) else 1 for space in spaces)
        for i in range(draw_width(config))
    )


def draw_width(config: RunConfig) -> int:
    """The coordinates of a draw: one for each known parameter, then one for each other."""
    others = (set(searched_names(config, arm)) - set(PARAMETERS) for arm in config.arms)
    return len(PARAMETERS) + max(map(len, others))


def names_in_draws(space: Space) -> tuple[str, ...]:
    """The parameter that each coordinate of a draw is for."""
    return (*PARAMETERS, *(name for name in space if name not in PARAMETERS))


def _at(space: Space, i: int) -> Interval | Choice | None:
    """The range of coordinate i of a draw."""
    names = names_in_draws(space)
    return space.get(names[i]) if i < len(names) else None
