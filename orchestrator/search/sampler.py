"""Ask and tell, as pure functions: draw a cycle's settings, and learn from their outcomes.

The draws of a cycle are quantiles, the same for every arm. Each arm maps them to values of its own
ranges, around its own champion, so that arms can be compared in pairs, instance by instance. The
draws depend on (seed, cycle) only, and everything that a search learns is its `SearchState`, which
the journal stores. So a resumed run gives the same bits as an uninterrupted one.
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
from orchestrator.config.space import Space, draw_width, grid_axes, names_in_draws
from trainer.outcome import Outcome, Status
from trainer.setting import PARAMETERS, Setting, setting_of

SHRINK = 0.5
"""Each level of caution multiplies eta0 by this, down to the lower end of its range."""
MAX_CAUTION = 10

Draws = NDArray[np.float64]
"""Quantiles in [0, 1], shape (instances, parameters)."""


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has learnt: the last winner's setting, and its level of caution."""

    incumbent: Setting | None = None
    caution: int = 0


def draw_quantiles(config: RunConfig, cycle: int, rng: np.random.Generator) -> Draws:
    """Draw the quantiles of a cycle, for all arms."""
    if not isinstance(config.search.sampler, GridSampler):
        n, known = config.search.instances, len(PARAMETERS)
        first = rng.random((n, known))  # the same whatever else is drawn
        return np.hstack([first, rng.random((n, draw_width(config) - known))])
    axes = grid_axes(config)
    start = cycle * config.search.instances
    index = np.arange(start, start + config.search.instances) % math.prod(axes)
    steps = np.stack(np.unravel_index(index, axes), axis=1)
    lengths = np.array(axes)
    return np.where(lengths > 1, steps / np.maximum(lengths - 1, 1), 0.5)


def cycle_rng(seed: int, cycle: int) -> np.random.Generator:
    """The random generator of a cycle's draws."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence((seed, cycle))))


def ask(search: SearchConfig, space: Space, state: SearchState, draws: Draws) -> list[Setting]:
    """The settings of an arm's instances, in the order of instance numbers.

    `adaptive` tries the incumbent again as instance 0 and draws around it; the last instances draw
    from the full ranges. Caution lowers every eta0 except the incumbent's.
    """
    near, first_explorer = _near_ranges(search.sampler, space, state, len(draws))
    settings = [
        _with_caution(
            setting_at(near if i < first_explorer else space, quantiles), space, state.caution
        )
        for i, quantiles in enumerate(draws)
    ]
    if isinstance(search.sampler, AdaptiveSampler) and state.incumbent is not None:
        settings[0] = fitted_to(space, state.incumbent)
    return settings


def tell(state: SearchState, outcomes: Sequence[Outcome], winner: int | None) -> SearchState:
    """The state of the search after a cycle.

    Caution rises by one if instances diverged and none was retained. It falls by one if any was
    retained. Failed and late instances say nothing about the settings.
    """
    statuses = {outcome.status for outcome in outcomes}
    caution = state.caution
    if Status.RETAINED in statuses:
        caution = max(caution - 1, 0)
    elif Status.DIVERGED in statuses:
        caution = min(caution + 1, MAX_CAUTION)
    won = [outcome.setting for outcome in outcomes if outcome.instance == winner]
    return SearchState(won[0] if won else state.incumbent, caution)


def with_leader_steps(state: SearchState, leader: SearchState) -> SearchState:
    """The state with eta0, alpha and beta of another arm's incumbent."""
    if leader.incumbent is None:
        return state
    own = state.incumbent or leader.incumbent
    ours = replace(
        leader.incumbent, rho=own.rho, lam=own.lam, dual_step=own.dual_step, others=own.others
    )
    return replace(state, incumbent=ours)


def _near_ranges(
    sampler: Sampler, space: Space, state: SearchState, instances: int
) -> tuple[Space, int]:
    """The ranges near the incumbent, and the first instance that draws from the full ranges."""
    if not isinstance(sampler, AdaptiveSampler) or state.incumbent is None:
        return space, instances
    centre = fitted_to(space, state.incumbent)
    near = {
        name: narrowed(
            span,
            centre.value(name) or 0.0,
            getattr(sampler.spread, name if name in PARAMETERS else "others"),
        )
        if state.incumbent.value(name) is not None
        else span
        for name, span in space.items()
    }
    return near, instances - min(round(sampler.explore * instances), instances - 1)


def fitted_to(space: Space, setting: Setting) -> Setting:
    """The nearest setting in this space; a missing parameter gets the middle of its range."""
    given = {name: setting.value(name) for name in space}
    return setting_of(
        {
            name: value_at(space[name], 0.5) if value is None else nearest_value(space[name], value)
            for name, value in given.items()
        }
    )


def _with_caution(setting: Setting, space: Space, caution: int) -> Setting:
    return setting if caution == 0 else with_shorter_steps(setting, space, SHRINK**caution)


def with_shorter_steps(setting: Setting, space: Space, factor: float) -> Setting:
    """The setting with its step size times `factor`, but within the range of it."""
    name = step_name(space)
    size = setting.value(name)
    if size is None:
        return setting
    shrunk = at_most(space[name], float(f"{size * factor:.6g}"))
    if name in PARAMETERS:
        return replace(setting, **{name: shrunk})  # type: ignore[arg-type]
    return replace(setting, others={**(setting.others or {}), name: shrunk})


def step_name(space: Space) -> str:
    """The parameter that is the step size: eta0, or the first one of another trainer."""
    return "eta0" if "eta0" in space else next(iter(space))


def setting_at(space: Space, quantiles: NDArray[np.float64]) -> Setting:
    """The setting at these quantiles of the ranges."""
    return setting_of(
        {
            name: value_at(space[name], float(quantile))
            for name, quantile in zip(names_in_draws(space), quantiles, strict=False)
            if name in space
        }
    )
