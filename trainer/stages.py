"""The stages of one event's training step, compiled into the kernels that call them.

Offsets count float32 entries. A row is [values | sums | low parts of the sums], each `width`
long. `store` may write up to seven entries past the end of its target, so buffers end with SLACK,
and rows of products and gradients are written in ascending order.
"""

from typing import Any, NamedTuple

import numpy as np

from divergence.jit import inlined
from divergence.lanemath import f32
from divergence.rules.hooks import (
    ascend,
    damps,
    gradient_limit,
    move,
    norm_limit,
    penalty_coefficient,
    summed_gradient,
    update_limit,
)
from divergence.simd import (
    WIDTH,
    absolute,
    any_not_below,
    fma,
    item,
    lane_max,
    lane_sum,
    larger,
    load,
    prefetch,
    put,
    splat,
    store,
)
from trainer.geometry import PARTS

CACHE_LINE = 16  # float32 in a cache line
SLACK = WIDTH  # how far a store may reach past the end of its target


class SideArrays(NamedTuple):
    """One side, users or ads: the rows of its events, its table, and the size of its vectors."""

    events: Any  # EventRows
    table: Any
    mu: Any  # of each row
    gradient: Any  # of the loss, for each of the side's features
    length: Any
    width: Any  # the length, padded to whole lanes
    stride: Any  # between the gradients of two features; the ad's features share one, so 0
    slots: Any  # of every event; 0 where events differ


class SlotRange(NamedTuple):
    """The slots of one side of one event: first <= slot < stop in the scratch.

    Slot j of the scratch is slot j + shift of the side's events.
    """

    first: Any
    stop: Any
    shift: Any


class Scratch(NamedTuple):
    """Memory for one event: numbers of each slot (the user's first), then vectors and gradients."""

    at: Any  # int64: the offset of the slot's row in its table
    source: Any  # int64: the offset of its feature's gradient
    weight: Any  # its share in its feature, from the chunk
    share: Any  # the same after gradient clipping
    mu: Any
    inverse: Any  # one over the vector's length
    penalty: Any  # the coefficient of the penalty's gradient
    square: Any  # the squared norm after the step
    where: Any  # int64: the offset of each user feature's vector in the user table
    user_vector: Any  # then the gradient of the ad's features
    ad_vector: Any
    user_gradients: Any  # of each user feature, `stride` apart
    dense: Any  # the sums of all touched rows, then what eta0 is divided by
    exponents: Any  # between the two halves of a power
    squares: Any  # of the gradients that belong to `dense`, for rules that damp steps
    before: Any  # one row before its step, for rules that limit updates


@inlined
def slots_of(side, event, first):
    """The slots of an event on one side, numbered from `first` in the scratch."""
    if side.slots > 0:
        return SlotRange(first, first + side.slots, event * side.slots - first)
    begin, end = item(side.events.start, event), item(side.events.start, event + 1)
    return SlotRange(first, first + (end - begin), begin - first)


@inlined
def prefetch_rows(side, event):
    """Ask for the rows of an event before they are needed."""
    size = PARTS * side.width
    slots = slots_of(side, event, 0)
    for slot in range(slots.first, slots.stop):
        at = np.int64(item(side.events.row, slot + slots.shift)) * size
        for j in range(0, size, CACHE_LINE):
            prefetch(side.table, at + j)


@inlined
def look_up(side, slots, scratch):
    """Find the rows of these slots, and their multipliers."""
    for slot in range(slots.first, slots.stop):
        row = np.int64(item(side.events.row, slot + slots.shift))
        put(scratch.at, slot, row * (PARTS * side.width))
        put(scratch.mu, slot, item(side.mu, row))


@inlined
def write_back(side, slots, scratch):
    """Write the multipliers back to where `look_up` found them."""
    for slot in range(slots.first, slots.stop):
        row = np.int64(item(side.events.row, slot + slots.shift))
        put(side.mu, row, item(scratch.mu, slot))


@inlined
def describe(side, slots, scratch):
    """The weight, gradient and length of each slot, where events differ in their slots."""
    if side.slots > 0:  # all alike, and filled in once
        return
    for slot in range(slots.first, slots.stop):
        feature = np.int64(item(side.events.feature, slot + slots.shift))
        put(scratch.weight, slot, item(side.events.weight, slot + slots.shift))
        put(scratch.source, slot, feature * side.stride)
        put(scratch.inverse, slot, f32(1.0) / f32(side.length))


@inlined
def mix(users, slots, scratch, shape):
    """where[k]: the vector of feature k, its value's own row or a scratch row with the mean."""
    if users.slots > 0:  # slots are features, and `where` is `at` itself
        return
    table, feature, where = users.table, users.events.feature, scratch.where
    size = PARTS * users.width
    scratch_rows = len(table) - shape.features * size
    before = -1
    for slot in range(slots.first, slots.stop):
        k = np.int64(item(feature, slot + slots.shift))
        last = slot + 1 == slots.stop or item(feature, slot + 1 + slots.shift) != k
        if k != before and last:
            put(where, k, item(scratch.at, slot))
        else:
            to, w = scratch_rows + k * size, splat(item(scratch.weight, slot))
            put(where, k, to)
            for j in range(0, users.width, WIDTH):
                so_far = load(table, to + j) if k == before else splat(f32(0.0))
                store(table, to + j, fma(w, load(table, item(scratch.at, slot) + j), so_far))
        before = k


@inlined
def user_vector(users, scratch, shape):
    """The products of each pair of features' shared entries, then their lone entries."""
    K, o, s = shape.features, shape.overlap, shape.alone
    table, where, vector = users.table, scratch.where, scratch.user_vector
    t = 0
    for p in range(K):
        for q in range(p + 1, K):
            left, right = item(where, p) + (q - 1) * o, item(where, q) + p * o
            for j in range(0, o, WIDTH):
                store(vector, t + j, load(table, left + j) * load(table, right + j))
            t += o
    for k in range(K):
        for j in range(0, s, WIDTH):
            store(vector, t + j, load(table, item(where, k) + (K - 1) * o + j))
        t += s
    store(vector, t, splat(f32(0.0)))


@inlined
def ad_vector(ads, slots, scratch):
    """The weighted sum of the ad's rows; returns its product with the user's vector."""
    dot = splat(f32(0.0))
    for j in range(0, ads.width, WIDTH):
        v = splat(f32(0.0))
        for slot in range(slots.first, slots.stop):
            w = f32(1.0) if ads.slots > 0 else item(scratch.weight, slot)
            v = fma(splat(w), load(ads.table, item(scratch.at, slot) + j), v)
        store(scratch.ad_vector, j, v)
        dot = fma(v, load(scratch.user_vector, j), dot)
    return lane_sum(dot)


@inlined
def feature_gradients(users, scratch, shape, g):
    """The gradient of the loss for each user feature's vector: `user_vector` backwards."""
    K, o, s = shape.features, shape.overlap, shape.alone
    table, where, gradient, stride = users.table, scratch.where, users.gradient, users.stride
    g = splat(g)
    t = 0
    for p in range(K):
        for q in range(p + 1, K):
            for j in range(0, o, WIDTH):
                h = g * load(scratch.ad_vector, t + j)
                left = load(table, item(where, p) + (q - 1) * o + j)
                right = load(table, item(where, q) + p * o + j)
                store(gradient, p * stride + (q - 1) * o + j, h * right)
                store(gradient, q * stride + p * o + j, h * left)
            t += o
    for k in range(K):
        to = k * stride + (K - 1) * o
        for j in range(0, s, WIDTH):
            store(gradient, to + j, g * load(scratch.ad_vector, t + j))
        store(gradient, to + s, splat(f32(0.0)))
        t += s


@inlined
def ad_gradient(ads, scratch, g):
    """The gradient of the loss for every ad feature: the user's vector, times g, in its place."""
    for j in range(0, ads.width, WIDTH):
        store(ads.gradient, j, splat(g) * load(scratch.user_vector, j))


@inlined
def penalties(rule, n, scratch):
    """The penalty's coefficient for each of the first n slots."""
    for j in range(0, n, WIDTH):
        c = penalty_coefficient(rule, load(scratch.mu, j), load(scratch.inverse, j))
        store(scratch.penalty, j, c)


@inlined
def update_multipliers(rule, n, scratch):
    """The rule's dual step for each of the first n slots."""
    for j in range(0, n, WIDTH):
        msqr = load(scratch.square, j) * load(scratch.inverse, j)
        store(scratch.mu, j, ascend(rule, load(scratch.mu, j), msqr))


@inlined
def add_gradients(side, slots, scratch, rule, x):
    """Add |gradient| to the sums of these slots' rows, and copy the sums to dense[x:].

    `share` becomes the weight with which each gradient counts, at most what the rule allows.
    Returns the end of what was copied.
    """
    limit = gradient_limit(rule)
    before, square = -1, f32(0.0)
    for slot in range(slots.first, slots.stop):
        w = f32(1.0) if side.slots > 0 else item(scratch.weight, slot)
        if limit < np.inf:
            if item(scratch.source, slot) != before:  # an ad's features share one gradient
                before = item(scratch.source, slot)
                square = squared_norm(side.gradient, before, side.width)
            w = clipped(w, square, limit)
        put(scratch.share, slot, w)
        add_gradient(side, slot, scratch, rule, w, x)
        x += side.length
    return x


@inlined
def squared_norm(gradient, source, width):
    """The squared norm of a gradient."""
    total = splat(f32(0.0))
    for j in range(0, width, WIDTH):
        total = fma(load(gradient, source + j), load(gradient, source + j), total)
    return lane_sum(total)


@inlined
def clipped(weight, square, limit):
    """The weight with which a gradient of this squared norm is no longer than the limit."""
    if weight * weight * square > limit * limit:
        return limit / np.sqrt(square)
    return weight


@inlined
def add_gradient(side, slot, scratch, rule, share, x):
    """`add_gradients` for one row. A sum is a compensated pair, so that no small step is lost."""
    at, source = item(scratch.at, slot), item(scratch.source, slot)
    table, width = side.table, side.width
    w, c = splat(share), splat(item(scratch.penalty, slot))
    for j in range(0, width, WIDTH):
        loss_gradient = w * load(side.gradient, source + j)
        if damps(rule):
            store(scratch.squares, x + j, loss_gradient * loss_gradient)
        g = absolute(summed_gradient(rule, c, load(table, at + j), loss_gradient))
        high = load(table, at + width + j)
        low = load(table, at + 2 * width + j) + g
        total = high + low
        store(table, at + width + j, total)
        store(table, at + 2 * width + j, low - (total - high))
        store(scratch.dense, x + j, total)


@inlined
def step(side, slots, scratch, rule, rates, x):
    """Move the rows of these slots, whose denominators begin at dense[x]; note their squared norms.

    Returns the end of their denominators, and whether some entry is not below tau.
    """
    eta0, tau = splat(f32(rates.eta0)), f32(rates.tau)
    even = side.slots > 0 and gradient_limit(rule) == np.inf  # all shares are 1
    diverged = False
    for slot in range(slots.first, slots.stop):
        w = f32(1.0) if even else item(scratch.share, slot)
        at = item(scratch.at, slot)
        square = step_row(side, slot, scratch, rule, w, eta0, x)
        square = limit_norm(side.table, at, side.width, square, norm_limit(rule, f32(side.length)))
        put(scratch.square, slot, square)
        if not square < tau * tau * f32(0.9999):  # an entry may be beyond tau, or NaN: look
            diverged |= reaches(side.table, at, side.width, splat(tau))
        x += side.length
    return x, diverged


@inlined
def step_row(side, slot, scratch, rule, share, eta0, x):
    """Move one row; return its squared norm."""
    at, source = item(scratch.at, slot), item(scratch.source, slot)
    table, before = side.table, scratch.before
    w, c = splat(share), splat(item(scratch.penalty, slot))
    relative, most = update_limit(rule)
    total = excess = splat(f32(0.0))
    for j in range(0, side.width, WIDTH):
        theta, g = load(table, at + j), w * load(side.gradient, source + j)
        new = move(rule, c, theta, g, eta0, load(scratch.dense, x + j))
        store(table, at + j, new)
        total = fma(new, new, total)
        if most < np.inf:
            store(before, j, theta)
            allowed = fma(splat(relative), absolute(theta), splat(most))
            excess = larger(absolute(new - theta) - allowed, excess)
    if most < np.inf and lane_max(excess) > f32(0.0):
        return shorten(table, at, side.width, before, relative, most)
    return lane_sum(total)


@inlined
def shorten(table, at, width, before, relative, most):
    """Scale a row's update down until no entry moves too far; return the squared norm."""
    strain = splat(f32(1.0))
    for j in range(0, width, WIDTH):
        theta = load(before, j)
        allowed = fma(splat(relative), absolute(theta), splat(most))
        strain = larger(absolute(load(table, at + j) - theta) / allowed, strain)
    scale, total = splat(f32(1.0) / lane_max(strain)), splat(f32(0.0))
    for j in range(0, width, WIDTH):
        theta = load(before, j)
        new = fma(scale, load(table, at + j) - theta, theta)
        store(table, at + j, new)
        total = fma(new, new, total)
    return lane_sum(total)


@inlined
def limit_norm(table, at, width, square, limit):
    """Scale a row back to the largest squared norm that the rule allows.

    A norm that is not finite is left alone: the check against tau finds it.
    """
    if square > limit and square < f32(np.inf):
        shrink = splat(np.sqrt(limit / square))
        for j in range(0, width, WIDTH):
            store(table, at + j, shrink * load(table, at + j))
        return limit
    return square


@inlined
def reaches(table, at, width, tau):
    """Whether some entry of the row is not below tau in size (NaN counts)."""
    for j in range(0, width, WIDTH):
        if any_not_below(absolute(load(table, at + j)), tau):
            return True
    return False
