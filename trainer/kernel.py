"""The one-pass training kernel: it trains one instance's rows on a block of events, in order.

For each event: mix the values' vectors into features, features into the user's and the ad's
vector, score, and compute the gradients; then AdaGrad's sums, the powers, the step, the check
against tau and the rule's dual step. `trainer/stages.py` holds the stages. All numbers are float32
lanes except the bias (float64), and subnormal numbers count as zero.

A sum is a compensated pair, since a float32 sum stops growing after some 1e7 small steps. Powers
are half of the work: they run over one dense buffer of all touched coordinates, in which the next
row overwrites a row's padding.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import inlined, jit
from divergence.lanemath import begin_constants, exp, f32, softplus_lanes
from divergence.power import denominators
from divergence.simd import WIDTH, item, lane_sum, load, put, splat
from divergence.subnormals import flush_subnormals, restore_subnormals
from trainer.stages import (
    CACHE_LINE,
    SLACK,
    Scratch,
    SideArrays,
    ad_gradient,
    ad_vector,
    add_gradients,
    describe,
    feature_gradients,
    look_up,
    mix,
    penalties,
    prefetch_rows,
    slots_of,
    step,
    update_multipliers,
    user_vector,
    write_back,
)
from trainer.step_sizes import add_bias_gradient, held_back, reach


class EventRows(NamedTuple):
    """Which rows the events look up on one side: event i has the slots start[i] to start[i + 1].

    A slot is one value of one feature, with its row and its share in the feature's mean. Where
    every feature has a single value, slots are features and only `row` is used.
    """

    start: NDArray[np.int64]  # [events + 1]
    row: NDArray[np.int32]  # [slots]
    feature: NDArray[np.int32]  # [slots], ascending within an event
    weight: NDArray[np.float32]  # [slots]


class Tables(NamedTuple):
    """The rows that a chunk touches, flat: the only thing that training changes."""

    user: NDArray[np.float32]  # [(user rows + K scratch rows) * 3 * user_padded]
    ad: NDArray[np.float32]  # [ad rows * 3 * ad_padded]
    user_mu: NDArray[np.float32]  # [user rows]
    ad_mu: NDArray[np.float32]  # [ad rows]
    bias: NDArray[np.float64]  # [2]: the bias and its sum


class Rates(NamedTuple):
    """The step sizes, the threshold, and whether powers are of reference accuracy."""

    eta0: float
    alpha: float
    beta: float
    tau: float
    reference: bool


@jit
def train_block(
    click, user_rows, ad_rows, tables, shape, rates, rule, first, last, margin, constants
):
    """Train on the events first <= i < last; return the event that diverged, or -1.

    `margin[i]` becomes the logit before the step, negated for a click: the event's log-loss is
    softplus(margin). An instance has diverged when a step leaves an entry |v| >= tau or not
    finite; the tables stay as that step left them.
    """
    control = flush_subnormals()
    scratch = _scratch(user_rows, ad_rows, shape, first, last)
    users, ads = _sides(user_rows, ad_rows, tables, scratch, shape)
    bias, bias_sum = tables.bias[0], tables.bias[1]
    diverged = -1
    for i in range(first, last):
        user_slots = slots_of(users, i, 0)
        ad_slots = slots_of(ads, i, user_slots.stop)
        if i + 1 < last:
            prefetch_rows(users, i + 1)
            prefetch_rows(ads, i + 1)
        look_up(users, user_slots, scratch)
        look_up(ads, ad_slots, scratch)
        describe(users, user_slots, scratch)
        describe(ads, ad_slots, scratch)
        mix(users, user_slots, scratch, shape)

        user_vector(users, scratch, shape)
        logit = f32(bias) + ad_vector(ads, ad_slots, scratch)
        clicked = item(click, i)
        put(margin, i, -logit if clicked else logit)

        g = f32(1.0) / (f32(1.0) + exp(-logit)) - f32(clicked)
        feature_gradients(users, scratch, shape, g)
        ad_gradient(ads, scratch, g)
        penalties(rule, ad_slots.stop, scratch)
        end = add_gradients(users, user_slots, scratch, rule, 0)
        end = add_gradients(ads, ad_slots, scratch, rule, end)
        bias_sum += abs(np.float64(g))
        add_bias_gradient(scratch, rule, end, bias_sum, g)

        # with the last row's padding, which a step of zero is divided by
        denominators(scratch.dense, scratch.exponents, end + SLACK, rates, constants)
        eta0 = held_back(f32(rates.eta0), reach(scratch, end + SLACK, rule), g, rule)
        bias -= np.float64(eta0 / item(scratch.dense, end)) * np.float64(g)
        held = Rates(eta0, rates.alpha, rates.beta, rates.tau, rates.reference)
        end, user_diverged = step(users, user_slots, scratch, rule, held, 0)
        end, ad_diverged = step(ads, ad_slots, scratch, rule, held, end)
        update_multipliers(rule, ad_slots.stop, scratch)
        write_back(users, user_slots, scratch)
        write_back(ads, ad_slots, scratch)
        if user_diverged or ad_diverged or not np.isfinite(bias):
            diverged = i
            break
    tables.bias[0], tables.bias[1] = bias, bias_sum
    restore_subnormals(control)
    return diverged


@jit
def total_loss(margin, n, constants):
    """The sum of softplus(margin[:n]), in float64; margin is padded with numbers below -1e4."""
    total, k = 0.0, begin_constants(constants, splat)
    for j in range(0, n, WIDTH):
        total += np.float64(lane_sum(softplus_lanes(load(margin, j), k)))
    return total


@inlined
def _sides(user_rows, ad_rows, tables, scratch, shape):
    """Both sides as the stages take them."""
    users = SideArrays(
        user_rows,
        tables.user,
        tables.user_mu,
        scratch.user_gradients,
        shape.user,
        shape.user_padded,
        shape.user_padded + SLACK,
        shape.user_slots,
    )
    ads = SideArrays(
        ad_rows,
        tables.ad,
        tables.ad_mu,
        scratch.user_vector,  # `ad_gradient` turns the one into the other
        shape.ad,
        shape.ad_padded,
        0,
        shape.ad_slots,
    )
    return users, ads


@inlined
def _scratch(user_rows, ad_rows, shape, first, last):
    """Memory for one event's work; what never changes where features are single is filled in.

    It is one buffer cut at offsets that the compiler knows, since registers are scarce. The dense
    part comes first and begins at a cache line, which wide lanes would otherwise straddle.
    """
    most_u, most_a = shape.user_slots, shape.ad_slots
    if most_u == 0:
        most_u = _most_slots(user_rows.start, first, last)
        most_a = _most_slots(ad_rows.start, first, last)
    most = (most_u + most_a + WIDTH - 1) // WIDTH * WIDTH
    stride = shape.user_padded + SLACK
    length = shape.ad_padded + SLACK
    gradients = shape.features * stride
    dense = (most_u * shape.user + most_a * shape.ad + 4 * SLACK + CACHE_LINE) // CACHE_LINE
    dense *= CACHE_LINE
    size = 3 * dense + 6 * most + 3 * length + gradients + stride
    memory = np.ones(size + CACHE_LINE, np.float32)
    memory = memory[-(memory.ctypes.data // memory.itemsize) % CACHE_LINE :]
    sums, exponents, squares = memory[:dense], memory[dense : 2 * dense], memory[2 * dense :]
    squares, memory = squares[:dense], squares[dense:]
    numbers, memory = memory[: 6 * most], memory[6 * most :]
    offsets = np.arange(2 * most + shape.features)
    source = offsets[most : 2 * most]
    source[:] = 0
    for slot in range(most_u):
        source[slot] = slot * stride
    inverse = numbers[3 * most : 4 * most]
    inverse[:most_u] = f32(1.0) / f32(shape.user)
    inverse[most_u:] = f32(1.0) / f32(shape.ad)
    user_vector, ad_vector = memory[:length], memory[length : 2 * length]
    memory = memory[2 * length :]
    user_gradients, memory = memory[:gradients], memory[gradients:]
    return Scratch(
        offsets[:most],
        source,
        numbers[:most],
        numbers[most : 2 * most],
        numbers[2 * most : 3 * most],
        inverse,
        numbers[4 * most : 5 * most],
        numbers[5 * most :],
        offsets[:most] if shape.user_slots > 0 else offsets[2 * most :],  # slots are features
        user_vector,
        ad_vector,
        user_gradients,
        sums,
        exponents,
        squares,
        memory,
    )


@jit
def _most_slots(start, first, last):
    """The largest number of slots that one of these events has."""
    most = 0
    for i in range(first, last):
        most = max(most, start[i + 1] - start[i])
    return most
