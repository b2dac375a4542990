"""What the next cycle tries: pure ask and tell.

A cycle's draws are quantiles, the same for every arm; an arm reads them as values of its own
ranges, around its own champion. So arms are compared in pairs, instance by instance. The draws
follow from (seed, cycle), and all that a search learns is its `SearchState`, which the journal
keeps: a resumed run goes on bit for bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from orchestrator.config.ranges import (
    at_most,
    narrowed,
    nearest_value,
    value_at,
)
from orchestrator.config.schema import (
    AdaptiveSampler,
    GridSampler,
    RunConfig,
    Sampler,
    SearchConfig,
)
from orchestrator.config.space import Space, grid_axes
from trainer.outcome import Outcome, Status
from trainer.setting import PARAMETERS, Setting

SHRINK = 0.5
"""Each level of caution multiplies eta0 by this, as far as the range goes down."""
MOST_CAUTIOUS = 10

Draws = NDArray[np.float64]
"""Quantiles in [0, 1], (instances, parameters): a row for each instance."""


@dataclass(frozen=True, slots=True)
class SearchState:
    """All that a search knows: the last winner's setting, and how cautious it has become."""

    incumbent: Setting | None = None
    caution: int = 0


def draw(config: RunConfig, cycle: int, rng: np.random.Generator) -> Draws:
    """The quantiles of a cycle, for all arms."""
    shape = (config.search.instances, len(PARAMETERS))
    if not isinstance(config.search.sampler, GridSampler):
        return rng.random(shape)
    axes = grid_axes(config)
    first = cycle * config.search.instances
    index = np.arange(first, first + config.search.instances) % math.prod(axes)
    steps = np.stack(np.unravel_index(index, axes), axis=1)
    lengths = np.array(axes)
    return np.where(lengths > 1, steps / np.maximum(lengths - 1, 1), 0.5)


def generator(seed: int, cycle: int) -> np.random.Generator:
    """The random numbers of a cycle's draws."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, cycle))))


def ask(search: SearchConfig, space: Space, state: SearchState, draws: Draws) -> list[Setting]:
    """The settings of an arm's instances, by instance number.

    `adaptive` repeats the incumbent as instance 0, draws around it, and gives the last instances
    the whole ranges. Caution lowers every eta0 but the incumbent's.
    """
    near, first_far = _reach(search.sampler, space, state, len(draws))
    settings = [
        _cautious(_setting_at(near if i < first_far else space, quantiles), space, state.caution)
        for i, quantiles in enumerate(draws)
    ]
    if isinstance(search.sampler, AdaptiveSampler) and state.incumbent is not None:
        settings[0] = _within(space, state.incumbent)
    return settings


def tell(state: SearchState, outcomes: Sequence[Outcome], winner: int | None) -> SearchState:
    """What the search knows after a cycle.

    Caution rises by one when instances diverged and none was retained, and falls by one when any
    was. Instances lost to faults or lateness say nothing about the setting.
    """
    statuses = {outcome.status for outcome in outcomes}
    caution = state.caution
    if Status.RETAINED in statuses:
        caution = max(caution - 1, 0)
    elif Status.DIVERGED in statuses:
        caution = min(caution + 1, MOST_CAUTIOUS)
    won = [outcome.setting for outcome in outcomes if outcome.instance == winner]
    return SearchState(won[0] if won else state.incumbent, caution)


def following(state: SearchState, leader: SearchState) -> SearchState:
    """The state with eta0, alpha and beta taken from another arm's incumbent."""
    if leader.incumbent is None:
        return state
    own = state.incumbent or leader.incumbent
    ours = replace(leader.incumbent, rho=own.rho, lam=own.lam, dual_step=own.dual_step)
    return replace(state, incumbent=ours)


def _reach(sampler: Sampler, space: Space, state: SearchState, instances: int) -> tuple[Space, int]:
    """The ranges near the incumbent, and the first instance that looks beyond them."""
    if not isinstance(sampler, AdaptiveSampler) or state.incumbent is None:
        return space, instances
    centre = _within(space, state.incumbent)
    near = {
        name: narrowed(span, getattr(centre, name), getattr(sampler.spread, name))
        if getattr(state.incumbent, name) is not None
        else span
        for name, span in space.items()
    }
    return near, instances - min(round(sampler.explore * instances), instances - 1)


def _within(space: Space, setting: Setting) -> Setting:
    """The setting as this space has it; what the setting lacks stands in the middle."""
    given = {name: getattr(setting, name) for name in space}
    return Setting(
        **{
            name: value_at(space[name], 0.5) if value is None else nearest_value(space[name], value)
            for name, value in given.items()
        }
    )


def _cautious(setting: Setting, space: Space, caution: int) -> Setting:
    if caution == 0:
        return setting
    shrunk = float(f"{setting.eta0 * SHRINK**caution:.6g}")
    return replace(setting, eta0=at_most(space["eta0"], shrunk))


def _setting_at(space: Space, quantiles: NDArray[np.float64]) -> Setting:
    return Setting(
        **{
            name: value_at(space[name], float(quantile))
            for name, quantile in zip(PARAMETERS, quantiles, strict=True)
            if name in space
        }
    )
