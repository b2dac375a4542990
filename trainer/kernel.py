"""The one-pass training kernel: every event of a block, in order, on one instance's own rows.

For each event: mix the values' vectors into features, features into the user's and the ad's
vector, score, and walk the gradient back; then AdaGrad's sums, the powers, the step, the check
against tau and the rule's dual step. Everything is float32 lanes but the bias (float64), and
subnormal numbers are zero.

A sum is a compensated pair, since a float32 sum stops growing after some 1e7 small steps. Powers
are half of the work: they run over one dense buffer of all touched coordinates, in which a row's
padding is overwritten by the next row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from divergence.jit import inlined, jit
from divergence.lanemath import exp, f32, softplus_lanes
from divergence.rules.hooks import ascend, gradient_limit, pull
from divergence.simd import (
    WIDTH,
    flush_subnormals,
    item,
    lane_sum,
    load,
    put,
    restore_subnormals,
    splat,
    store,
)
from trainer.geometry import PARTS
from trainer.stages import (
    SLACK,
    ad_vector,
    add_up,
    ask,
    feature_gradients,
    look_up,
    mix,
    slots,
    slowness,
    step,
    user_vector,
    write_back,
)


class Slots(NamedTuple):
    """One side of all events: event i holds the slots start[i] to start[i + 1].

    A slot is one value of one feature, with its row and its share in the feature's mean. Where
    every feature has a single value, slots are features and only `row` is looked at.
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


class _Touched(NamedTuple):
    """The slots of the event at hand, the user's first: where their rows are, and numbers."""

    at: Any  # int64: a row's offset in its table
    source: Any  # int64: its feature's offset in the gradients
    weight: Any  # its share in its feature, as the chunk has it
    share: Any  # the same after gradient clipping
    mu: Any
    inverse: Any  # one over the vector's length
    pull: Any  # the penalty's coefficient
    square: Any  # the squared norm after the step


class _Vectors(NamedTuple):
    """The event's vectors and gradients."""

    where: Any  # int64: the offset of each feature's vector in the user table
    user: Any  # the user's vector; then the gradient of the ad's features
    ad: Any
    gradient: Any  # of each user feature, `stride` apart
    sums: Any  # dense: the sums, then what eta0 is divided by
    whole: Any  # dense: exponents between the two halves of a power
    before: Any  # one row before its step, for rules that limit updates


@jit
def train_block(click, users, ads, tables, shape, rates, rule, first, last, margin, constants):
    """Train on the events first <= i < last; return the event that diverged, or -1.

    `margin[i]` becomes the logit before the step, negated for a click: the event's log-loss is
    softplus(margin). An instance has diverged when a step leaves an entry |v| >= tau or not
    finite; the tables are left as that step made them.
    """
    control = flush_subnormals()
    u_start, u_row, u_feature, u_weight = users
    a_start, a_row, _, a_weight = ads
    user, ad, user_mu, ad_mu, bias_state = tables
    touched, vectors = _scratch(u_start, a_start, shape, first, last)
    at, source, weight, share, mu, inverse, c, square = touched
    where, nu_u, nu_a, gradient, sums, whole, before = vectors
    bias, bias_sum = bias_state[0], bias_state[1]
    D, M, d, N = shape.user_padded, shape.ad_padded, shape.user, shape.ad
    alpha, beta = splat(f32(rates.alpha)), splat(f32(rates.beta))
    single = shape.user_slots > 0  # a constant: the branches below cost nothing
    even = single and gradient_limit(rule) == np.inf
    diverged = -1
    for i in range(first, last):
        u0, u1 = slots(u_start, i, shape.user_slots)
        a0, a1 = slots(a_start, i, shape.ad_slots)
        n_u = u1 - u0
        n = n_u + a1 - a0
        if i + 1 < last:
            ask(user, u_row, u1, slots(u_start, i + 1, shape.user_slots)[1], PARTS * D)
            ask(ad, a_row, a1, slots(a_start, i + 1, shape.ad_slots)[1], PARTS * M)
        look_up(u_row, u0, 0, n_u, PARTS * D, user_mu, at, mu)
        look_up(a_row, a0, n_u, n, PARTS * M, ad_mu, at, mu)
        if not single:
            _describe(u_weight, u_feature, u0, a_weight, a0, n_u, n, weight, source, inverse, shape)
            mix(user, u_feature, u0, n_u, at, weight, where, shape)
        user_vector(user, where, shape, nu_u)
        logit = f32(bias) + ad_vector(ad, at, weight, n_u, n, nu_u, nu_a, shape)
        clicked = item(click, i)
        put(margin, i, -logit if clicked else logit)
        g = f32(1.0) / (f32(1.0) + exp(-logit)) - f32(clicked)
        feature_gradients(user, where, shape, nu_a, g, gradient)
        for j in range(0, M, WIDTH):
            store(nu_u, j, splat(g) * load(nu_u, j))
        for j in range(0, n, WIDTH):
            store(c, j, pull(rule, load(mu, j), load(inverse, j)))
        x = add_up(
            user, D, d, (0, n_u), at, source, weight, c, share, gradient, rule, sums, 0, single
        )
        x = add_up(ad, M, N, (n_u, n), at, source, weight, c, share, nu_u, rule, sums, x, single)
        bias_sum += abs(np.float64(g))
        put(sums, x, f32(bias_sum))
        slowness(sums, whole, x + SLACK, alpha, beta, constants, rates.reference)
        bias -= np.float64(f32(rates.eta0) / item(sums, x)) * np.float64(g)
        x, hit_u = step(
            user,
            D,
            d,
            (0, n_u),
            at,
            source,
            share,
            c,
            square,
            gradient,
            rule,
            rates,
            sums,
            0,
            before,
            even,
        )
        x, hit_a = step(
            ad,
            M,
            N,
            (n_u, n),
            at,
            source,
            share,
            c,
            square,
            nu_u,
            rule,
            rates,
            sums,
            x,
            before,
            even,
        )
        for j in range(0, n, WIDTH):
            store(mu, j, ascend(rule, load(mu, j), load(square, j) * load(inverse, j)))
        write_back(u_row, u0, 0, n_u, user_mu, mu)
        write_back(a_row, a0, n_u, n, ad_mu, mu)
        if hit_u or hit_a or not np.isfinite(bias):
            diverged = i
            break
    bias_state[0], bias_state[1] = bias, bias_sum
    restore_subnormals(control)
    return diverged


@jit
def predict_block(users, ads, tables, shape, logits):
    """The logit of every event, from tables that stay as they are but for the scratch rows."""
    control = flush_subnormals()
    u_start, u_row, u_feature, u_weight = users
    a_start, a_row, _, a_weight = ads
    user, ad, user_mu, ad_mu, bias = tables
    touched, vectors = _scratch(u_start, a_start, shape, 0, len(logits))
    at, source, weight, inverse, mu = (
        touched.at,
        touched.source,
        touched.weight,
        touched.inverse,
        touched.mu,
    )
    for i in range(len(logits)):
        u0, u1 = slots(u_start, i, shape.user_slots)
        a0, a1 = slots(a_start, i, shape.ad_slots)
        n_u = u1 - u0
        n = n_u + a1 - a0
        look_up(u_row, u0, 0, n_u, PARTS * shape.user_padded, user_mu, at, mu)
        look_up(a_row, a0, n_u, n, PARTS * shape.ad_padded, ad_mu, at, mu)
        if shape.user_slots == 0:
            _describe(u_weight, u_feature, u0, a_weight, a0, n_u, n, weight, source, inverse, shape)
            mix(user, u_feature, u0, n_u, at, weight, vectors.where, shape)
        user_vector(user, vectors.where, shape, vectors.user)
        dot = ad_vector(ad, at, weight, n_u, n, vectors.user, vectors.ad, shape)
        logits[i] = f32(bias[0]) + dot
    restore_subnormals(control)


@jit
def total_loss(margin, n, constants):
    """The sum of softplus(margin[:n]), in float64; margin is padded with numbers below -1e4."""
    total = 0.0
    for j in range(0, n, WIDTH):
        total += np.float64(lane_sum(softplus_lanes(load(margin, j), constants)))
    return total


@inlined
def _describe(u_weight, u_feature, u0, a_weight, a0, n_u, n, weight, source, inverse, shape):
    """The weights, features and lengths of an event's slots, where they are not always alike."""
    for slot in range(n_u):
        put(weight, slot, item(u_weight, u0 + slot))
        put(source, slot, np.int64(item(u_feature, u0 + slot)) * (shape.user_padded + SLACK))
        put(inverse, slot, f32(1.0) / f32(shape.user))
    for slot in range(n_u, n):
        put(weight, slot, item(a_weight, a0 + slot - n_u))
        put(source, slot, 0)
        put(inverse, slot, f32(1.0) / f32(shape.ad))


@inlined
def _scratch(u_start, a_start, shape, first, last):
    """Room for one event's work; what never changes where features are single is filled in.

    It is one buffer cut at offsets that the compiler knows, since registers are scarce.
    """
    most_u, most_a = shape.user_slots, shape.ad_slots
    if most_u == 0:
        most_u, most_a = _most(u_start, first, last), _most(a_start, first, last)
    most = (most_u + most_a + WIDTH - 1) // WIDTH * WIDTH
    stride = shape.user_padded + SLACK
    length = shape.ad_padded + SLACK
    gradients = shape.features * stride
    dense = (most_u * shape.user + most_a * shape.ad + 1 + 4 * SLACK) // WIDTH * WIDTH
    room = np.ones(6 * most + 3 * length + gradients + stride + 2 * dense, np.float32)
    numbers, room = room[: 6 * most], room[6 * most :]
    offsets = np.arange(2 * most + shape.features)
    source = offsets[most : 2 * most]
    source[:] = 0
    for slot in range(most_u):
        source[slot] = slot * stride
    inverse = numbers[3 * most : 4 * most]
    inverse[:most_u] = f32(1.0) / f32(shape.user)
    inverse[most_u:] = f32(1.0) / f32(shape.ad)
    touched = _Touched(
        offsets[:most],
        source,
        numbers[:most],
        numbers[most : 2 * most],
        numbers[2 * most : 3 * most],
        inverse,
        numbers[4 * most : 5 * most],
        numbers[5 * most :],
    )
    nu_u, nu_a, room = room[:length], room[length : 2 * length], room[2 * length :]
    gradient, room = room[:gradients], room[gradients:]
    vectors = _Vectors(
        offsets[:most] if shape.user_slots > 0 else offsets[2 * most :],  # slots are features
        nu_u,
        nu_a,
        gradient,
        room[:dense],
        room[dense : 2 * dense],
        room[2 * dense :],
    )
    return touched, vectors


@jit
def _most(start, first, last):
    """The largest number of slots that one of these events has."""
    most = 0
    for i in range(first, last):
        most = max(most, start[i + 1] - start[i])
    return most
