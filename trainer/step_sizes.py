"""The stages between gradients and steps that hold a step back, for rules that damp it."""

import numpy as np

from divergence.jit import inlined
from divergence.lanemath import f32
from divergence.rules.hooks import damps, logit_damping
from divergence.simd import WIDTH, lane_sum, load, put, splat, store
from trainer.stages import SLACK

SMALLEST = f32(1e-36)  # far above subnormal numbers


@inlined
def add_bias_gradient(scratch, rule, at, bias_sum, g):
    """Copy the bias's sum to dense[at], behind those of all rows; no squares follow its own."""
    put(scratch.dense, at, f32(bias_sum))
    if damps(rule):
        store(scratch.squares, at, splat(f32(0.0)))
        store(scratch.squares, at + SLACK, splat(f32(0.0)))
        put(scratch.squares, at, g * g)


@inlined
def reach(scratch, n, rule):
    """The sum of gradient ** 2 / denominator over dense[:n] where the rule damps steps, else 0."""
    found = splat(f32(0.0))
    if damps(rule):
        for j in range(0, n, WIDTH):
            found = found + load(scratch.squares, j) / load(scratch.dense, j)
    return lane_sum(found)


@inlined
def held_back(eta0, reach, g, rule):
    """eta0 / sqrt(1 + (damping * eta0 * reach / g**2)**2): `reach` has the slope g in it, squared.

    A slope that is not a number stays so: the step's check against tau finds it.
    """
    if not damps(rule):
        return eta0
    square = g * g
    square = SMALLEST if square < SMALLEST else square
    far = logit_damping(rule) * eta0 * (reach / square)
    return eta0 / np.sqrt(f32(1.0) + far * far)
