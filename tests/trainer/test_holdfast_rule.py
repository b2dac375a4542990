"""What the rule `holdfast` promises: bounded steps, and no instance that diverges."""

import numpy as np
import pytest

from divergence.bound import rho0
from trainer.contract.checks import GEOMETRIES
from trainer.contract.oracle import slope
from trainer.contract.worlds import (
    World,
    first_state,
    make_world,
    state_of,
    tables_of,
    train_kernel,
)

HOT = (1e6, 1e-3, 0.3)
"""Step sizes with which every other rule without a wall loses every instance."""


def world_with(seed: int, events: int, *, multi: bool = False, **holds: float) -> World:
    geometry = GEOMETRIES[seed % len(GEOMETRIES)]
    k, overlap, alone, _ = geometry
    longest = k * (k - 1) // 2 * overlap + k * alone
    holds = {"rho": 0.1 * rho0(longest), "dual_step": 30.0, **holds}
    return make_world(
        seed, geometry, multi=multi, rule="holdfast", holds=holds, events=events, rates=HOT
    )


@pytest.mark.parametrize("seed", range(len(GEOMETRIES)))
@pytest.mark.parametrize("damping", [0.0, 1.0])
def test_no_instance_diverges(seed: int, damping: float) -> None:
    world = world_with(seed, 300, damping=damping, multi=bool(seed % 2))
    start = first_state(world, seed, size=0.15, sums=0.0)
    tables = tables_of(world, start)
    bad, margins = train_kernel(world, tables)
    assert bad == -1
    assert np.isfinite(margins[:300]).all()
    after = state_of(world, tables, start)
    for side in (after.user, after.ad):
        assert np.max(np.linalg.norm(side.theta, axis=1)) < 12


def test_without_the_wall_the_same_steps_diverge() -> None:
    world = world_with(0, 300, damping=0.0, wall=1e30)
    assert train_kernel(world, tables_of(world, first_state(world, 0, size=0.15, sums=0.0)))[0] >= 0


@pytest.mark.parametrize("damping", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_an_event_moves_its_logit_by_less_than_slope_over_damping(
    seed: int, damping: float
) -> None:
    """To first order, and however large the step sizes are; the penalty is switched off."""
    off = {"mu0": 1e-30, "mu_floor": 0.0, "dual_step": 1e-20, "wall": 1e30}
    world = world_with(seed, 1, damping=damping, multi=bool(seed % 2), **off)
    before = first_state(world, seed, size=0.3, sums=1.0)
    before.user.mu[:] = before.ad.mu[:] = 1e-30
    (event,) = world.events
    tables = tables_of(world, before)
    train_kernel(world, tables)
    after, error = state_of(world, tables, before), slope(before.logit(event), event.click)
    moved = after.bias - before.bias
    for side, row, gradient in before.gradients(event):
        new = after.user if side is before.user else after.ad
        moved += float(gradient / error @ (new.theta[row] - side.theta[row]))
    assert moved == pytest.approx(-error / damping, rel=1e-3)  # these steps are at the limit
